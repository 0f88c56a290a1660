/* agent-sandbox-mcp: the sandbox server as an MCP server on standard input and output. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bsd/stdlib.h>

#include "clients/api/files.h"
#include "clients/api/lines.h"
#include "clients/mcp/mcp.h"
#include "common/confine_client.h"
#include "common/log.h"

#define MAX_OUTPUT_DEFAULT 32768
#define MAX_OUTPUT_LEAST 1024
#define MAX_OUTPUT_MOST 1048576
#define KEPT_CONNECTIONS 16L /* when calls are done */
#define READ_SIZE ((size_t)256 << 10)
#define OUT_FULL ((size_t)16 << 20) /* and no more of its messages are read */
#define END_GRACE 1000              /* ms that calls have when the input has ended */
#define FLUSH_GRACE 1000            /* and their answers after that */
#define MAKING_GRACE 10000          /* and sandboxes that are being made */

static const char usage[] =
    "usage: agent-sandbox-mcp [--version | --help]\n"
    "\n"
    "Speaks MCP on standard input and output; a client starts it. Settings are in the\n"
    "environment:\n"
    "  AGENT_SANDBOX_URL             the server; default http://127.0.0.1:8080\n"
    "  AGENT_SANDBOX_API_KEY         its key; else AGENT_SANDBOX_API_KEY_FILE names a file\n"
    "                                with it, else ~/.config/agent-sandbox/key\n"
    "  AGENT_SANDBOX_CA_FILE         whom to trust with https, instead of whom this machine does\n"
    "  AGENT_SANDBOX_CLIENT_CERT     a client certificate; its private key is in the file\n"
    "                                AGENT_SANDBOX_CLIENT_KEY, else in the same\n"
    "  AGENT_SANDBOX_MCP_MAX_OUTPUT  bytes of a result, 1024 to 1048576; default 32768\n";

static size_t
max_output(void)
{
	const char *name = "AGENT_SANDBOX_MCP_MAX_OUTPUT", *value = getenv(name), *fault;
	long long n;

	if (value == NULL || *value == '\0')
		return MAX_OUTPUT_DEFAULT;
	n = strtonum(value, MAX_OUTPUT_LEAST, MAX_OUTPUT_MOST, &fault);
	if (fault != NULL)
		fatal_config("%s: \"%s\" is %s: bytes from %d to %d", name, value, fault,
		    MAX_OUTPUT_LEAST, MAX_OUTPUT_MOST);
	return (size_t)n;
}

static void
start(struct mcp *m)
{
	const struct api_options none = {0};
	struct api_error e;

	memset(m, 0, sizeof(*m));
	m->version = V_NONE;
	m->max_output = max_output();
	TAILQ_INIT(&m->works);
	if (api_server_init(&m->server, &none, &e) == -1)
		fatal_config("%s", e.text);
	api_start();
	if ((m->multi = curl_multi_init()) == NULL)
		fatalx("libcurl cannot start");
	curl_multi_setopt(m->multi, CURLMOPT_MAXCONNECTS, KEPT_CONNECTIONS);
	outbox_init(&m->out, STDOUT_FILENO);
	confine_client(api_files());
}

/* 1 while there may be more. */
static int
take_input(struct lines *in, struct mcp *m)
{
	static char buf[READ_SIZE];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n == -1 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n > 0)
		lines_feed(in, buf, (size_t)n, session_line, m);
	else
		lines_end(in, session_line, m);
	return n > 0;
}

/* Waits for the input, room for the output, or a call; ms -1: for as long as it takes. */
static void
wait_for(struct mcp *m, struct pollfd p[2], int ms)
{
	struct curl_waitfd fds[2];
	unsigned n = 0;
	int slow = outbox_waiting(&m->out) > MCP_OUT_SLOW;

	for (int i = 0; i < 2; i++) {
		if (p[i].fd == -1)
			continue;
		fds[n].fd = p[i].fd;
		fds[n].events = i == 0 ? CURL_WAIT_POLLIN : CURL_WAIT_POLLOUT;
		fds[n++].revents = 0;
	}
	if (slow)
		poll(p, 2, ms);
	else if (curl_multi_poll(m->multi, fds, n, ms == -1 ? 60000 : ms, NULL) != CURLM_OK)
		fatalx("libcurl cannot wait");
	/* It does not tell of the end of a pipe. */
	if (poll(p, 2, 0) == -1)
		p[0].revents = p[1].revents = 0;
}

static int
sooner(int a, int b)
{
	if (a == -1 || b == -1)
		return a == -1 ? b : a;
	return a < b ? a : b;
}

/* One turn: 0, or -1 when nobody reads our answers any more. */
static int
turn(struct mcp *m, struct lines *in, int *open, int ms)
{
	struct pollfd p[2] = {{.fd = -1, .events = POLLIN}, {.fd = -1, .events = POLLOUT}};

	ms = sooner(ms, progress_turn(m, work_now()));
	if (outbox_flush(&m->out) == -1)
		return -1;
	if (m->behind && outbox_waiting(&m->out) <= MCP_OUT_SLOW)
		ms = 0;
	if (*open && outbox_waiting(&m->out) < OUT_FULL)
		p[0].fd = STDIN_FILENO;
	if (outbox_waiting(&m->out) > 0)
		p[1].fd = STDOUT_FILENO;
	wait_for(m, p, ms);
	if (p[0].fd != -1 && p[0].revents != 0)
		*open = take_input(in, m);
	m->behind = work_turn(m);
	return outbox_flush(&m->out);
}

/* What is being made for nobody is awaited, and destroyed, though nothing is read or written any
 * more. */
static void
finish_making(struct mcp *m)
{
	uint64_t until = work_now() + MAKING_GRACE;

	outbox_free(&m->out);
	while (!TAILQ_EMPTY(&m->works) && work_now() < until) {
		work_turn(m);
		if (!TAILQ_EMPTY(&m->works) &&
		    curl_multi_poll(m->multi, NULL, 0, 1000, NULL) != CURLM_OK)
			fatalx("libcurl cannot wait");
	}
	work_end_all(m);
}

/* The client has closed our input: what is under way may still end by itself, but not for long. */
static void
end(struct mcp *m, struct lines *in)
{
	uint64_t until = work_now() + END_GRACE, now;
	int closed = 0;

	while (!TAILQ_EMPTY(&m->works) && (now = work_now()) < until)
		if (turn(m, in, &closed, (int)(until - now)) == -1)
			break;
	work_cancel_all(m);
	until = work_now() + FLUSH_GRACE;
	while (outbox_waiting(&m->out) > 0 && (now = work_now()) < until)
		if (turn(m, in, &closed, (int)(until - now)) == -1)
			break;
	finish_making(m);
}

static void
serve(struct mcp *m)
{
	struct lines in;
	int open = 1;

	lines_init(&in, MCP_LINE_MAX);
	while (open)
		if (turn(m, &in, &open, -1) == -1)
			break;
	end(m, &in);
	lines_free(&in);
}

int
main(int argc, char **argv)
{
	static struct mcp m;

	log_init("agent-sandbox-mcp", LOG_LEVEL_WARN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("agent-sandbox-mcp " VERSION) == EOF;
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return fputs(usage, stdout) == EOF;
	if (argc > 1)
		return fputs(usage, stderr), EXIT_CONFIG;
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		fatal("signal");
	start(&m);
	serve(&m);
	curl_multi_cleanup(m.multi);
	outbox_free(&m.out);
	api_server_free(&m.server);
	return 0;
}
