/*
 * "agent-sandbox doctor": what this host gives, what would not work, what would be weaker, and the
 * limits that stay. Changes nothing.
 */
#include <errno.h>
#include <netdb.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "agent-sandbox/doctor.h"
#include "agent-sandbox/options.h"
#include "agent-sandbox/show.h"
#include "common/confine.h"
#include "common/nft.h"

static int failures;
static json_t *findings; /* with --json */

void
doctor_say(enum finding finding, const char *fmt, ...)
{
	static const char *const words[] = {"ok  ", "note", "weak", "FAIL"};
	char said[1024], text[4 * sizeof(said)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	show_line(said, text, sizeof(text)); /* a path may be anything */
	failures += finding == FINDING_FAIL;
	if (common_options.json)
		json_array_append_new(
		    findings, json_pack("{s:s#,s:s}", "finding", words[finding],
				  (int)strcspn(words[finding], " "), "text", text));
	else
		printf("%s  %s\n", words[finding], text);
}

static void
say_warning(const char *text)
{
	doctor_say(FINDING_NOTE, "%s", text);
}

static void
check_kernel(const struct settings *s)
{
	struct confine_kernel kernel;
	struct utsname uts;
	struct statfs fs;
	enum finding lacks = s->c.num[CFG_ALLOW_WEAKER] ? FINDING_WEAK : FINDING_FAIL;
	int v2 =
	    statfs("/sys/fs/cgroup", &fs) == 0 && (unsigned long)fs.f_type == CGROUP2_SUPER_MAGIC;

	uname(&uts);
	confine_probe(&kernel);
	doctor_say(FINDING_OK, "kernel %s, cgroup v%d", uts.release, v2 ? 2 : 1);
	if (kernel.seccomp)
		doctor_say(FINDING_OK, "seccomp filters");
	else
		doctor_say(lacks, "no seccomp filters: programs could make any system call");
	if (kernel.landlock_abi > 0)
		doctor_say(FINDING_OK, "Landlock ABI %d", kernel.landlock_abi);
	else
		doctor_say(
		    lacks, "no Landlock: files are kept away by root directory and user alone");
	if (kernel.user_namespaces)
		doctor_say(FINDING_OK, "user namespaces");
	else if (geteuid() == 0)
		doctor_say(FINDING_OK, "no user namespaces; as root none are needed");
	else
		doctor_say(FINDING_FAIL, "no user namespaces: without root the programs cannot be "
					 "given roots of their own");
}

static void
check_users(void)
{
	static const char *const users[] = {
	    "_as-api", "_as-manager", "_as-docker", "_as-egress", "_as-key", "_as-session"};
	int missing = 0;

	if (geteuid() != 0) {
		doctor_say(FINDING_WEAK,
		    "not root: all programs would run as this user; confinement \"partial\"");
		return;
	}
	for (size_t i = 0; i < sizeof(users) / sizeof(users[0]); i++) {
		if (getpwnam(users[i]) == NULL) {
			doctor_say(FINDING_FAIL, "the user %s does not exist: run create-users.sh",
			    users[i]);
			missing = 1;
		}
	}
	if (!missing)
		doctor_say(FINDING_OK, "the users of the programs exist");
}

static void
check_data_dir(const struct settings *s)
{
	const char *dir = s->c.str[CFG_DATA_DIR];
	const struct passwd *pw = geteuid() == 0 ? getpwnam("_as-manager") : getpwuid(geteuid());
	int64_t floor_mb = s->c.num[CFG_DISK_FLOOR_MB], free_mb;
	struct statvfs fs;
	struct stat st;

	if (stat(dir, &st) == -1 && errno == ENOENT)
		doctor_say(FINDING_OK, "data directory %s will be made", dir);
	else if (stat(dir, &st) == -1 || !S_ISDIR(st.st_mode))
		doctor_say(FINDING_FAIL, "AGENT_SANDBOX_DATA_DIR: %s: %s", dir,
		    S_ISDIR(st.st_mode) ? strerror(errno) : "not a directory");
	else if (pw != NULL && st.st_uid != pw->pw_uid &&
		 (st.st_uid != geteuid() || st.st_gid != pw->pw_gid))
		doctor_say(FINDING_NOTE,
		    "data directory %s belongs to user %u: it is taken over if it is empty", dir,
		    st.st_uid);
	else
		doctor_say(FINDING_OK, "data directory %s", dir);
	if (statvfs(dir, &fs) == -1)
		return;
	free_mb = (int64_t)(fs.f_bavail * fs.f_frsize >> 20);
	doctor_say(free_mb < floor_mb ? FINDING_FAIL : FINDING_OK,
	    "%lld MiB free there; AGENT_SANDBOX_DISK_FLOOR_MB is %lld", (long long)free_mb,
	    (long long)floor_mb);
}

/* As the server does: brackets are no part of an address, and IPv4 comes first. */
static int
resolve(const char *host, const char *port, struct addrinfo **ai)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	char name[256];
	int e;

	snprintf(name, sizeof(name), "%s", *host == '[' ? host + 1 : host);
	if (*host == '[')
		name[strcspn(name, "]")] = '\0';
	hints.ai_family = AF_INET;
	if ((e = getaddrinfo(name, port, &hints, ai)) == 0)
		return 0;
	hints.ai_family = AF_INET6;
	return getaddrinfo(name, port, &hints, ai) == 0 ? 0 : e;
}

static void
check_port(const struct settings *s)
{
	struct addrinfo *ai = NULL;
	const char *host = s->c.str[CFG_HOST], *port = s->c.str[CFG_PORT];
	int fd, e, on = 1;

	if ((e = resolve(host, port, &ai)) != 0) {
		doctor_say(FINDING_FAIL, "AGENT_SANDBOX_HOST: %s: %s", host, gai_strerror(e));
		return;
	}
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd != -1 && bind(fd, ai->ai_addr, ai->ai_addrlen) == 0)
		doctor_say(FINDING_OK, "port %s of %s is free", port, host);
	else if (errno == EADDRINUSE)
		doctor_say(FINDING_NOTE,
		    "port %s of %s is in use: fine if this server runs, else set "
		    "AGENT_SANDBOX_PORT",
		    port, host);
	else
		doctor_say(FINDING_FAIL, "port %s of %s: %s", port, host, strerror(errno));
	if (fd != -1)
		close(fd);
	freeaddrinfo(ai);
}

static void
check_network(const struct settings *s)
{
	int loaded = nft_table_loaded("agent_sandbox");

	if (!s->c.num[CFG_ALLOW_NETWORK])
		doctor_say(FINDING_OK,
		    "sandboxes cannot have network (AGENT_SANDBOX_ALLOW_NETWORK is false)");
	else if (loaded == 1)
		doctor_say(FINDING_OK, "packet filter: the table inet agent_sandbox is loaded");
	else
		doctor_say(FINDING_WEAK,
		    "packet filter: %s etc/agent-sandbox.nft: a sandbox with \"network\": true can "
		    "reach "
		    "this host's services, the local network and metadata addresses",
		    loaded == 0 ? "not loaded:" : "it cannot be seen whether this is loaded:");
}

static void
say_limits(void)
{
	doctor_say(FINDING_NOTE,
	    "sandboxes share this host's kernel: a hole in it is a hole in the sandbox; a runtime "
	    "with a "
	    "kernel of its own (AGENT_SANDBOX_DOCKER_RUNTIME=runsc) narrows that");
	doctor_say(FINDING_NOTE,
	    "commands of one sandbox trust each other; who must not, gets a sandbox of his own");
}

int
doctor_run(const char *file)
{
	char text[CONFIG_ERROR_MAX];
	struct settings s;

	findings = json_array();
	config_init(&s);
	if (config_load(&s, file, text, say_warning) == -1)
		doctor_say(FINDING_FAIL, "%s", text);
	else
		doctor_say(FINDING_OK, "configuration");
	check_kernel(&s);
	check_users();
	check_data_dir(&s);
	check_port(&s);
	doctor_keys(&s);
	doctor_tls(&s);
	doctor_engine(&s);
	check_network(&s);
	doctor_pool(&s);
	say_limits();
	config_free(&s);
	if (common_options.json)
		show_json(findings);
	else if (failures > 0)
		printf("\n%d of these would not work.\n", failures);
	return failures > 0;
}
