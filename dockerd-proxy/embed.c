/* What dockerd-proxy brings along: sandbox-init, in a tar, and the containers' seccomp profiles. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/embed.h"
#include "init_sha256.h"

EMBED(embed_init, INIT_PATH);
EMBED(embed_seccomp, SECCOMP_PATH);
EMBED(embed_seccomp_sentry, SECCOMP_SENTRY_PATH);

const char embed_init_sha256[] = INIT_SHA256;

struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == 512, "one block");

static void
ustar_head(struct ustar *h, const char *name, char type, unsigned mode, uint32_t uid, uint32_t gid,
    size_t size)
{
	unsigned sum = 0;

	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(h->mode, sizeof(h->mode), "%07o", mode);
	snprintf(h->uid, sizeof(h->uid), "%07o", uid);
	snprintf(h->gid, sizeof(h->gid), "%07o", gid);
	snprintf(h->size, sizeof(h->size), "%011zo", size);
	snprintf(h->mtime, sizeof(h->mtime), "%011o", 0u);
	h->type = type;
	memcpy(h->magic, "ustar", 6);
	memcpy(h->version, "00", 2);
	memset(h->sum, ' ', sizeof(h->sum));
	for (size_t i = 0; i < sizeof(*h); i++)
		sum += ((const char *)h)[i];
	snprintf(h->sum, sizeof(h->sum), "%06o", sum & 0777777);
}

void *
tar_make(size_t *len)
{
	size_t size = embed_init_size, blocks = (size + 511) / 512;
	struct ustar *tar;

	*len = (3 + blocks + 2) * sizeof(*tar);
	tar = mem_new(*len);
	ustar_head(&tar[0], "workspace/", '5', 0755, proxy.uid, proxy.gid, 0);
	ustar_head(&tar[1], ".agent-sandbox/", '5', 0755, 0, 0, 0);
	ustar_head(&tar[2], ".agent-sandbox/init", '0', 0555, 0, 0, size);
	memcpy(&tar[3], embed_init, size);
	return tar;
}
