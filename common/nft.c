/* One request to nf_tables over netlink: is there a table of this name? */
#include "common/nft.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define NAME_MAX_BYTES 64

struct request {
	struct nlmsghdr header;
	struct nfgenmsg family;
	struct nlattr attr;
	char name[NAME_MAX_BYTES];
};

static int
ask(int fd, const char *name)
{
	struct request rq = {.header = {.nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE,
				 .nlmsg_flags = NLM_F_REQUEST},
	    .family = {.nfgen_family = NFPROTO_INET},
	    .attr = {.nla_type = NFTA_TABLE_NAME}};
	const struct timeval patience = {.tv_sec = 1};
	union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	const struct nlmsgerr *error;
	size_t len = strlen(name) + 1;
	ssize_t n;

	memcpy(rq.name, name, len);
	rq.attr.nla_len = NLA_HDRLEN + len;
	rq.header.nlmsg_len = NLMSG_LENGTH(sizeof(rq.family)) + NLA_ALIGN(rq.attr.nla_len);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, &rq, rq.header.nlmsg_len, 0) == -1 ||
	    (n = recv(fd, &answer, sizeof(answer), 0)) < (ssize_t)sizeof(answer.header))
		return -1;
	if (answer.header.nlmsg_type != NLMSG_ERROR)
		return 1;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(*error)))
		return -1;
	error = NLMSG_DATA(&answer.header);
	/* Everything else means that there is none, or no such filter in this kernel at all. */
	return error->error == -EPERM ? -1 : 0;
}

int
nft_table_loaded(const char *name)
{
	int loaded, fd;

	if (strlen(name) >= NAME_MAX_BYTES ||
	    (fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)) == -1)
		return -1;
	loaded = ask(fd, name);
	close(fd);
	return loaded;
}
