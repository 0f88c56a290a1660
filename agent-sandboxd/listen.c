/* The one TCP socket: bound before anything else is started, opened when every program is ready. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <bsd/string.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

/* As long as the kernel lets it be: a flood fills it in less than half a second. */
#define BIND_TRIES 20
#define BIND_PAUSE_NS 100000000
#define BACKLOG 4096

static int
is_loopback(const struct sockaddr *sa)
{
	const struct in6_addr *a6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

	if (sa->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr) >>
			   24 ==
		       127;
	return IN6_IS_ADDR_LOOPBACK(a6) || (IN6_IS_ADDR_V4MAPPED(a6) && a6->s6_addr[12] == 127);
}

/* An address stays what it is; a name becomes its first IPv4 address, else its first IPv6 one. */
static struct addrinfo *
resolve(const char *host, const char *port)
{
	static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
	struct addrinfo hints, *res;
	char name[256];
	int e = 0;

	strlcpy(name, *host == '[' ? host + 1 : host, sizeof(name));
	if (*host == '[')
		name[strcspn(name, "]")] = '\0';
	for (int i = 0; i < 3; i++) {
		memset(&hints, 0, sizeof(hints));
		hints.ai_family = families[i];
		hints.ai_socktype = SOCK_STREAM;
		hints.ai_flags = AI_NUMERICSERV | (i == 0 ? AI_NUMERICHOST : 0);
		if ((e = getaddrinfo(name, port, &hints, &res)) == 0)
			return res;
	}
	fatal_config("AGENT_SANDBOX_HOST: \"%s\" is not an address or known name: %s", host,
	    gai_strerror(e));
}

static int
has_tls(const struct config *c)
{
	return *c->str[CFG_TLS_CERT] != '\0';
}

static void
check_policy(const struct config *c, const struct sockaddr *sa)
{
	if (is_loopback(sa)) {
		if (c->num[CFG_INSECURE_NO_AUTH])
			log_warnx(
			    "serving without keys: whoever can reach this port owns the sandboxes");
		return;
	}
	if (c->num[CFG_INSECURE_NO_AUTH])
		fatal_config(
		    "AGENT_SANDBOX_INSECURE_NO_AUTH: only a loopback address may be served without "
		    "keys, and AGENT_SANDBOX_HOST is \"%s\"",
		    c->str[CFG_HOST]);
	if (!has_tls(c) && !c->num[CFG_INSECURE_PLAINTEXT])
		fatal_config(
		    "AGENT_SANDBOX_HOST: \"%s\" is not a loopback address; keys would "
		    "travel in plain text: give AGENT_SANDBOX_TLS_CERT and _TLS_KEY, or put "
		    "a proxy that ends TLS in front and say "
		    "AGENT_SANDBOX_INSECURE_PLAINTEXT=true",
		    c->str[CFG_HOST]);
}

/* What the socket is really bound to goes to apid, and to the log. */
static void
learn_address(struct parent *p)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	char host[NI_MAXHOST], port[NI_MAXSERV];
	struct config *c = &p->set.c;

	if (getsockname(LISTEN_FD, (struct sockaddr *)&ss, &len) == -1)
		fatal("getsockname");
	if (getnameinfo((struct sockaddr *)&ss, len, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		fatalx("the listening socket has no address");
	free(c->str[CFG_HOST]);
	if ((c->str[CFG_HOST] = strdup(host)) == NULL)
		fatal("host");
	c->num[CFG_PORT] = atoi(port);
	snprintf(p->url, sizeof(p->url),
	    strchr(host, ':') != NULL ? "http%s://[%.80s]:%.8s" : "http%s://%.80s:%.8s",
	    has_tls(c) ? "s" : "", host, port);
}

static void __attribute__((noreturn)) refused(const struct config *c)
{
	if (errno == EADDRINUSE)
		fatal_config("AGENT_SANDBOX_PORT: port %lld of %s is taken by another program",
		    (long long)c->num[CFG_PORT], c->str[CFG_HOST]);
	fatal_config("AGENT_SANDBOX_HOST, AGENT_SANDBOX_PORT: cannot listen on port %lld of %s: %s",
	    (long long)c->num[CFG_PORT], c->str[CFG_HOST], strerror(errno));
}

/* Programs of a server that was killed a moment ago may still hold the port on their way out. */
int
listen_bind_patiently(int fd, const struct sockaddr *sa, socklen_t len)
{
	const struct timespec pause = {.tv_nsec = BIND_PAUSE_NS};

	for (int i = 0; i < BIND_TRIES; i++) {
		if (bind(fd, sa, len) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -1;
		nanosleep(&pause, NULL);
	}
	errno = EADDRINUSE;
	return -1;
}

void
listen_bind(struct parent *p)
{
	struct config *c = &p->set.c;
	struct addrinfo *ai;
	char port[16];
	int fd, on = 1, off = 0;

	snprintf(port, sizeof(port), "%lld", (long long)c->num[CFG_PORT]);
	ai = resolve(c->str[CFG_HOST], port);
	check_policy(c, ai->ai_addr);
	if ((fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1)
		refused(c);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == -1)
		fatal("setsockopt");
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (listen_bind_patiently(fd, ai->ai_addr, ai->ai_addrlen) == -1)
		refused(c);
	freeaddrinfo(ai);
	if (fd != LISTEN_FD) {
		if (dup3(fd, LISTEN_FD, O_CLOEXEC) == -1)
			fatal("dup3");
		close(fd);
	}
	learn_address(p);
}

void
listen_inherit(struct parent *p)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (getsockopt(LISTEN_FD, SOL_SOCKET, SO_TYPE, &type, &len) == -1 || type != SOCK_STREAM)
		fatalx("restarted without a listening socket");
	if (fcntl(LISTEN_FD, F_SETFD, FD_CLOEXEC) == -1)
		fatal("fcntl");
	learn_address(p);
}

void
listen_open(struct parent *p)
{
	/* Also after a restart: it does no harm, and the socket may not have been opened before. */
	if (listen(LISTEN_FD, BACKLOG) == -1)
		refused(&p->set.c);
	p->listening = 1;
	log_info("listening on %s", p->url);
	notify("READY=1");
}
