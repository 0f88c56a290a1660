/* "agent-sandbox run": one program in a sandbox of its own, with its outputs and its exit status as
 * if it had run here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "common/log.h"

#define EXIT_TIMED_OUT 124
#define EXIT_FAILED 125
#define CODE_MAX (400 * 1024) /* bytes of the 100,000 characters that a server takes */

static struct {
	const char *language, *code, *from;
	double timeout;
	long long memory;
	int snapshot, no_egress;
	struct texts egress;
} options;

static const struct option_row rows[] = {
    {"language", 'l', OPTION_TEXT, &options.language, "LANGUAGE",
	"python, javascript or node (else by the name of FILE)"},
    {"code", 'c', OPTION_TEXT, &options.code, "CODE", "the program itself, instead of FILE"},
    {"timeout", 't', OPTION_SECONDS, &options.timeout, "TIME", "it is ended then: 90, 5m"},
    {"memory", 'm', OPTION_MB, &options.memory, "MB", "how much it may use: 128, 1g"},
    {"snapshot", 's', OPTION_FLAG, &options.snapshot, NULL,
	"keep its workspace; the id goes to standard error"},
    {"from", 0, OPTION_TEXT, &options.from, "SNAPSHOT", "what is in its workspace at the start"},
    {"egress", 0, OPTION_LIST, &options.egress, "HOST",
	"reaches HOST (name, name:port, *.name, address) and nothing else"},
    {"no-egress", 0, OPTION_FLAG, &options.no_egress, NULL,
	"reaches nothing, also where the server has a list of its own"},
    {0},
};
const struct usage usage_run = {"run", "[FILE]",
    "Runs a program in a sandbox of its own, of which nothing is left.", rows, 0, 1, 1,
    "The program is FILE, or standard input if there is none or it is \"-\". Its input is empty.\n"
    "The exit status is the program's own; 124: it ran out of time; 125: it could not be run, for\n"
    "the reason on standard error. Output comes at the end. With --json the answer is printed.",
    0};

/* All of it; to be freed. */
static char *
read_code(const char *name, size_t *n)
{
	int fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	char *code = malloc(CODE_MAX + 1);
	ssize_t got;

	if (code == NULL)
		fatal("code");
	if (fd == -1)
		client_failx(EXIT_FAILED, "%s: %s", name, strerror(errno));
	for (*n = 0; *n <= CODE_MAX; *n += (size_t)got) {
		got = read(fd, code + *n, CODE_MAX + 1 - *n);
		if (got == -1 && errno == EINTR)
			got = 0;
		else if (got == -1)
			client_failx(EXIT_FAILED, "%s: %s", name, strerror(errno));
		else if (got == 0)
			break;
	}
	if (*n > CODE_MAX)
		client_failx(EXIT_FAILED, "%s: is longer than a program may be", name);
	if (fd != STDIN_FILENO)
		close(fd);
	return code;
}

static int
has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name), len = strlen(suffix);

	return n > len && strcmp(name + n - len, suffix) == 0;
}

static const char *
language_of(const char *name)
{
	static const char *const javascript[] = {".js", ".mjs", ".cjs"};

	if (options.language != NULL)
		return options.language;
	for (size_t i = 0; i < sizeof(javascript) / sizeof(javascript[0]); i++)
		if (has_suffix(name, javascript[i]))
			return "javascript";
	return "python";
}

/* The API takes no fractions of a second. */
static json_int_t
whole(double seconds)
{
	json_int_t n = (json_int_t)seconds;

	return (double)n < seconds ? n + 1 : n;
}

static json_t *
make_request(const char *name)
{
	json_t *request = json_object(), *limits = json_object(), *text;
	size_t n = options.code != NULL ? strlen(options.code) : 0;
	char *read = options.code == NULL ? read_code(name, &n) : NULL;

	if ((text = json_stringn(read != NULL ? read : options.code, n)) == NULL)
		client_failx(EXIT_FAILED, "%s: is not text in UTF-8",
		    options.code != NULL ? "--code" : name);
	free(read);
	json_object_set_new(request, "code", text);
	json_object_set_new(request, "language", object_text(&usage_run, language_of(name)));
	if (options.timeout > 0)
		json_object_set_new(
		    limits, "timeout_seconds", json_integer(whole(options.timeout)));
	if (options.memory > 0)
		json_object_set_new(limits, "memory_mb", json_integer(options.memory));
	json_object_set_new(request, "limits", limits);
	if (options.snapshot)
		json_object_set_new(request, "snapshot", json_true());
	object_egress(&usage_run, request, &options.egress, options.no_egress);
	return request;
}

static json_t *
ask(json_t *request)
{
	struct api_call *c = api_call_new(client_server(), "POST", "/v1/run");
	struct api_error e;
	json_t *answer;

	api_call_body(c, request);
	if (api_call_run(c, &e) == -1) {
		if (e.kind == API_REFUSED && e.status == 408) {
			client_fail_with(EXIT_TIMED_OUT);
			client_failx(EXIT_TIMED_OUT, "%s: --timeout gives it more", e.text);
		}
		client_fail(&e);
	}
	answer = json_incref((json_t *)(uintptr_t)api_call_json(c));
	api_call_free(c);
	return answer;
}

static int
put(int fd, const json_t *answer, const char *name)
{
	const json_t *text = json_object_get(answer, name);

	return show_write(fd, json_string_value(text), json_string_length(text));
}

static int
print_answer(const json_t *answer)
{
	const char *snapshot = client_text(answer, "snapshot_id");
	char line[128];

	client_check(answer, "stdout");
	client_check(answer, "stderr");
	if (common_options.json) {
		show_json(answer);
		return show_end();
	}
	put(STDERR_FILENO, answer, "stderr");
	if (put(STDOUT_FILENO, answer, "stdout") == -1)
		return show_failed(errno);
	if (json_is_true(json_object_get(answer, "truncated")))
		fprintf(stderr, "agent-sandbox: there was more output than is kept\n");
	if (*snapshot != '\0')
		fprintf(stderr, "agent-sandbox: snapshot %s\n",
		    show_line(snapshot, line, sizeof(line)));
	return 0;
}

int
verb_run_code(int argc, char **argv)
{
	json_t *request, *answer;
	char **words, *from;
	int n;

	client_fail_with(EXIT_FAILED);
	words = options_read(&usage_run, argc, argv, &n);
	if (options.code != NULL && n > 0)
		options_wrong(&usage_run, "--code and FILE cannot both be");
	request = make_request(n > 0 ? words[0] : "-");
	if (options.from != NULL) {
		from = client_snapshot(options.from);
		json_object_set_new(request, "snapshot_id", json_string(from));
		free(from);
	}
	answer = ask(request);
	n = print_answer(answer) != 0 ? EXIT_FAILED
	    : common_options.json     ? 0
				      : (int)client_number(answer, "exit_code");
	fflush(NULL);
	/* As of exec. */
	_exit(n);
}
