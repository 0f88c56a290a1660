/*
 * agent-sandboxd, the parent: reads the configuration, binds the port, starts the other programs
 * and watches them. It parses nothing that comes from a client, a sandbox or the engine.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <bsd/unistd.h>

#include "agent-sandboxd/parent.h"
#include "common/confine.h"
#include "common/log.h"
#include "common/nft.h"

struct options {
	const char *file, *host, *port, *resume;
	enum instance_rule instance;
};

static const char usage[] =
    "usage: agent-sandboxd [-f FILE] [--host HOST] [--port PORT] [--adopt | --new-instance]\n"
    "\n"
    "  -f FILE         read settings from FILE, one NAME=VALUE a line\n"
    "  --host HOST     as AGENT_SANDBOX_HOST\n"
    "  --port PORT     as AGENT_SANDBOX_PORT\n"
    "  --adopt         the data directory was moved here: go on with it\n"
    "  --new-instance  the data directory is a copy: begin a new identity with its snapshots\n"
    "  --version, --help\n"
    "\n"
    "The command line wins over the environment, which wins over the file. Settings:\n\n";

static void __attribute__((noreturn)) help(void)
{
	fputs(usage, stdout);
#define HELP(key, type, def, lo, hi, to, doc) \
	printf("  AGENT_SANDBOX_%s=%s\n      %s\n", #key, def, doc);
	CONFIG_TABLE(HELP)
	printf("  DOCKER_HOST=unix://%s\n      socket of the Docker engine\n", ENGINE_DEFAULT);
	exit(0);
}

static void
parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {{"host", required_argument, NULL, 'H'},
	    {"port", required_argument, NULL, 'p'}, {"adopt", no_argument, NULL, 'a'},
	    {"new-instance", no_argument, NULL, 'n'}, {"resume", required_argument, NULL, 'r'},
	    {"version", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'},
	    {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
		switch (c) {
		case 'f':
			o->file = optarg;
			break;
		case 'H':
			o->host = optarg;
			break;
		case 'p':
			o->port = optarg;
			break;
		case 'a':
			o->instance = INSTANCE_ADOPT;
			break;
		case 'n':
			o->instance = INSTANCE_NEW;
			break;
		case 'r':
			o->resume = optarg;
			break;
		case 'v':
			puts("agent-sandboxd " VERSION);
			exit(0);
		case 'h':
			help();
		default: /* getopt_long has said what is wrong */
			fprintf(stderr, "agent-sandboxd: --help lists the options and settings\n");
			exit(EXIT_CONFIG);
		}
	}
	if (optind != argc)
		fatal_config("there is no argument \"%s\"; see --help", argv[optind]);
}

static void
warn(const char *text)
{
	log_warnx("%s", text);
}

static void
configure(struct settings *s, const struct options *o)
{
	char text[CONFIG_ERROR_MAX];

	config_init(s);
	if ((o->host != NULL &&
		config_put(s, FROM_ARGV, "AGENT_SANDBOX_HOST", o->host, text) == -1) ||
	    (o->port != NULL &&
		config_put(s, FROM_ARGV, "AGENT_SANDBOX_PORT", o->port, text) == -1) ||
	    config_load(s, o->file, text, warn) == -1)
		fatal_config("%s", text);
	log_set_level((enum log_level)s->c.num[CFG_LOG_LEVEL]);
	log_set_json(s->c.num[CFG_LOG_FORMAT] != 0);
}

/* Whatever the caller left open is not for the programs; 0, 1 and 2 must be something. */
static void
clean_descriptors(struct parent *p, int resumed)
{
	struct rlimit rl;
	int fd;

	do {
		if ((fd = open("/dev/null", O_RDWR)) == -1)
			_exit(1);
	} while (fd <= STDERR_FILENO);
	closefrom(resumed ? LISTEN_FD + 1 : LISTEN_FD);
	fd = open("/dev/null", O_RDWR);
	if ((p->null_fd = fcntl(fd, F_DUPFD_CLOEXEC, LISTEN_FD + 1)) == -1)
		fatal("/dev/null");
	close(fd);
	/* One descriptor for each session; the programs get limits of their own. */
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
}

int
main(int argc, char **argv)
{
	static struct parent p;
	struct options o = {0};
	enum outcome outcome;

	log_init("agent-sandboxd", LOG_LEVEL_INFO);
	parse_options(&o, argc, argv);
	clean_descriptors(&p, o.resume != NULL);
	umask(077);
	watch_signals();
	p.instance = o.instance;
	if (o.resume != NULL)
		restart_parse(&p, o.resume);
	configure(&p.set, &o);
	paths_programs(&p);
	paths_users(&p);
	if (o.resume != NULL)
		listen_inherit(&p);
	else {
		listen_bind(&p);
		p.unfiltered = nft_table_loaded("agent_sandbox") != 1;
	}
	notify_open();
	paths_data_dir(&p);
	paths_engine(&p, &p.engine);
	if (!p.engine.exists)
		log_warnx("there is no engine at %s yet", p.set.engine);
	else if (p.as_root && (p.engine.mode & (S_IWGRP | S_IWOTH)) == 0)
		log_warnx(
		    "only its owner may use %s: give it a group and chmod g+rw", p.set.engine);
	else if (!p.as_root && access(p.set.engine, W_OK) == -1)
		log_warnx(
		    "this user may not use %s: start as root, or join its group", p.set.engine);
	/* The environment that a restart needs may hold keys. */
	prctl(PR_SET_DUMPABLE, 0);
	p.partial |= confine_parent(p.as_root, p.set.c.num[CFG_ALLOW_WEAKER]) != 0 || !p.as_root;
	start_all(&p);
	outcome = watch_run(&p);
	watch_end_all(&p);
	switch (p.outcome) {
	case STOPPED:
		return 0;
	case MISCONFIGURED:
		return EXIT_CONFIG;
	default:
		restart_exec(&p, argv, outcome == DIED && !paths_engine_moved(&p));
	}
}
