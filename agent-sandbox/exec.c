/*
 * "agent-sandbox exec": runs a command in a sandbox as if it were one here: streams both ways, its
 * exit status, and a signal to this process ends it there, since the server ends what nobody waits
 * for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/exec.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "common/base64.h"
#include "common/log.h"

#define EXIT_TIMED_OUT 124
#define EXIT_FAILED 125
#define QUERY_MAX 7000 /* of the 8 KiB that a request line may have */

static struct {
	struct texts env;
	const char *workdir;
	double timeout;
	int no_stdin, events, keep, kill_others;
} options;

static const struct option_row rows[] = {
    {"env", 'e', OPTION_LIST, &options.env, "NAME=VALUE", "for the command; NAME takes yours"},
    {"workdir", 'w', OPTION_TEXT, &options.workdir, "PATH", "where it runs (else /workspace)"},
    {"timeout", 't', OPTION_SECONDS, &options.timeout, "TIME", "it is ended then: 90, 15m, 2h"},
    {"no-stdin", 'n', OPTION_FLAG, &options.no_stdin, NULL, "its standard input is empty"},
    {"events", 0, OPTION_FLAG, &options.events, NULL,
	"print the output as JSON, one event a line, as it comes"},
    {"keep-running", 0, OPTION_FLAG, &options.keep, NULL,
	"it goes on when this program ends or is interrupted"},
    {"kill-others", 0, OPTION_FLAG, &options.kill_others, NULL,
	"end every other process of the sandbox first"},
    {0},
};
const struct usage usage_exec = {"exec", "SANDBOX COMMAND [ARGUMENT...]",
    "Runs a command in the sandbox.", rows, 2, -1, 1,
    "One word is a line for the shell there; several are a program and its arguments as they are.\n"
    "Standard input is passed on. The exit status is the command's own; 124: it ran out of time;\n"
    "125: it could not be run to its end, for the reason on standard error; 130: interrupted.\n"
    "With --json the output is printed at the end, with the exit code, as one object.",
    0};

static struct exec_end end;
static volatile sig_atomic_t caught;
static int wake[2] = {-1, -1};

static void
on_signal(int sig)
{
	int saved = errno;

	caught = sig;
	if (write(wake[1], "", 1) == -1) {
		/* The pipe is full: then it is awake. */
	}
	errno = saved;
}

static void
catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa = {.sa_handler = on_signal}, old;

	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) == -1)
		fatal("pipe");
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* nohup(1), or a shell's "&", wants it ignored. */
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
}

static json_t *
make_request(char **words, int n)
{
	json_t *request = json_object(), *command;

	if (n == 1) {
		command = object_text(&usage_exec, words[0]);
	} else {
		command = json_array();
		for (int i = 0; i < n; i++)
			json_array_append_new(command, object_text(&usage_exec, words[i]));
	}
	json_object_set_new(request, "command", command);
	if (options.env.n > 0)
		json_object_set_new(request, "env", object_env(&usage_exec, &options.env));
	if (options.workdir != NULL)
		json_object_set_new(request, "workdir", object_text(&usage_exec, options.workdir));
	if (options.timeout > 0)
		json_object_set_new(request, "timeout_seconds", json_real(options.timeout));
	return request;
}

/* The request in the URL, since the body is the input. To be freed; NULL if it is too long. */
static char *
encode_request(const json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT), *out;
	size_t n = text != NULL ? strlen(text) : 0, len;

	if (text == NULL || (out = malloc(n * 4 / 3 + 5)) == NULL)
		fatal("request");
	len = base64_encode((const uint8_t *)text, n, out);
	while (len > 0 && out[len - 1] == '=')
		len--;
	out[len] = '\0';
	for (size_t i = 0; i < len; i++)
		out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
	free(text);
	if (len <= QUERY_MAX)
		return out;
	free(out);
	return NULL;
}

static int
on_event(void *arg, const json_t *event)
{
	(void)arg;
	return exec_output_event(event, &end);
}

static struct api_call *
make_call(const char *sandbox, json_t *request, int with_input)
{
	char *query = with_input ? encode_request(request) : NULL, *path;
	struct api_call *c;

	if (with_input && query == NULL)
		client_failx(EXIT_FAILED,
		    "a command of more than 5 KiB cannot have an input as well: give --no-stdin, "
		    "or put it into a file (agent-sandbox put) and run that");
	/* What is not asked for stays out, for servers that know less. */
	if (asprintf(&path, "/v1/sandboxes/%s/exec/stream?detail=true%s%s%s%s%s", sandbox,
		options.events || common_options.json ? "" : "&encoding=base64",
		options.keep ? "&on_disconnect=continue" : "",
		options.kill_others ? "&kill_others=true" : "", with_input ? "&request=" : "",
		with_input ? query : "") == -1)
		fatal("path");
	c = api_call_new(client_server(), "POST", path);
	if (with_input) {
		api_call_upload(c, -1, exec_input_read, NULL);
		json_decref(request);
	} else {
		api_call_body(c, request);
	}
	api_call_events(c, on_event, NULL);
	free(path);
	free(query);
	return c;
}

/* Waits for the connection, the input, or a signal. */
static void
wait_for_more(CURLM *multi, CURL *curl)
{
	struct curl_waitfd fds[2] = {
	    {wake[0], CURL_WAIT_POLLIN, 0}, {STDIN_FILENO, CURL_WAIT_POLLIN, 0}};
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};
	unsigned n = exec_input_waits() ? 2 : 1;

	if (curl_multi_poll(multi, fds, n, 60000, NULL) != CURLM_OK && caught == 0)
		fatalx("libcurl cannot wait");
	/* Not every libcurl tells of the end of a pipe. */
	if (n == 2 && (fds[1].revents != 0 || poll(&input, 1, 0) != 0)) {
		exec_input_go_on();
		curl_easy_pause(curl, CURLPAUSE_CONT);
	}
}

/* 1 when the transfer has ended; then *code says how. */
static int
has_ended(CURLM *multi, CURLcode *code)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(multi, &left)) != NULL) {
		if (msg->msg == CURLMSG_DONE) {
			*code = msg->data.result;
			return 1;
		}
	}
	return 0;
}

static int
is_refused(CURL *curl)
{
	long status = 0;

	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	return status >= 300;
}

/* Until the command's end is told, the transfer has failed, or a signal came. */
static CURLcode
run(struct api_call *c)
{
	CURLM *multi = curl_multi_init();
	CURL *curl = api_call_curl(c);
	CURLcode code = CURLE_OK;
	int running;

	if (multi == NULL || curl_multi_add_handle(multi, curl) != CURLM_OK)
		fatalx("libcurl takes no call");
	for (;;) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			fatalx("libcurl failed");
		if (caught != 0 || end.known || has_ended(multi, &code))
			break;
		/* Else libcurl would wait for input that nobody wants any more. */
		if (exec_input_waits() && is_refused(curl)) {
			exec_input_go_on();
			curl_easy_pause(curl, CURLPAUSE_CONT);
			continue;
		}
		wait_for_more(multi, curl);
	}
	curl_multi_remove_handle(multi, curl);
	return code;
}

/* A reader that has gone ends this program as it ends others: silently. */
static int
say_output_failed(int error)
{
	if (error == EPIPE) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	if (error == EBADMSG)
		client_failx(EXIT_FAILED, "the server's answer is not of this API");
	client_failx(EXIT_FAILED, "standard output: %s", strerror(error));
}

static int
finish(struct api_call *c, CURLcode code)
{
	struct api_error e;

	if (caught != 0)
		return 128 + caught;
	if (end.known) {
		exec_output_end();
		if (show_end() != 0)
			return EXIT_FAILED;
		if (!end.timed_out)
			return end.exit_code;
		fprintf(stderr,
		    "agent-sandbox: the command ran out of time and was ended: --timeout "
		    "gives it more\n");
		return EXIT_TIMED_OUT;
	}
	if (exec_output_errno() != 0)
		return say_output_failed(exec_output_errno());
	if (api_call_done(c, code, &e) == -1)
		client_fail(&e);
	if (end.error != NULL)
		client_failx(EXIT_FAILED, "%s", end.error);
	client_failx(
	    EXIT_FAILED, "the connection ended before the command did: how it ended is not known");
}

int
verb_exec(int argc, char **argv)
{
	struct api_call *c;
	json_t *request;
	char **words, *sandbox;
	CURLcode code;
	int n, status;

	client_fail_with(EXIT_FAILED);
	words = options_read(&usage_exec, argc, argv, &n);
	if (options.events && common_options.json)
		options_wrong(&usage_exec, "--events and --json cannot both be");
	exec_output_init(options.events        ? EXEC_EVENTS
			 : common_options.json ? EXEC_RESULT
					       : EXEC_RAW);
	request = make_request(words + 1, n - 1);
	catch_signals();
	sandbox = client_sandbox(words[0]);
	c = make_call(sandbox, request, !options.no_stdin && exec_input_there());
	code = run(c);
	status = finish(c, code);
	free(sandbox);
	fflush(NULL);
	/* Putting libraries to rest would take as long as a short command. */
	_exit(status);
}
