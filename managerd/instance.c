/* Tells an own data directory from a copy of another server's. */
#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/instance.h"
#include "managerd/load.h"
#include "managerd/manager.h"
#include "managerd/store.h"
#include "proto/parent.h"

#define INSTANCE_FILE "instance.json"

static char machine[65];
static struct instance own;
static int adopts; /* the first engine that is met, whichever it is */

/* The first line of a small file; "" when there is none. */
static void
line_read(const char *path, char *buf, size_t size)
{
	ssize_t n = 0;
	int fd;

	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) != -1) {
		if ((n = read(fd, buf, size - 1)) == -1)
			n = 0;
		close(fd);
	}
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

void
instance_warm(void)
{
	uint8_t digest[32];
	char buf[256];

	line_read("/etc/machine-id", buf, sizeof(buf));
	SHA256((const unsigned char *)buf, strlen(buf), digest);
	hex_encode(digest, sizeof(digest), machine);
	line_read("/proc/sys/kernel/random/boot_id", box_boot, sizeof(box_boot));
}

char *
instance_encode(const struct instance *in)
{
	json_t *root = json_pack("{s:i, s:s, s:s, s:I, s:s}", "version", DATA_VERSION, "uuid",
	    in->uuid, "machine", in->machine, "inode", (json_int_t)in->inode, "engine", in->engine);
	char *text = root == NULL ? NULL : json_dumps(root, JSON_INDENT(1));

	if (text == NULL)
		fatalx("instance: out of memory");
	json_decref(root);
	return text;
}

static int
uuid_check(const char *s)
{
	size_t i;

	for (i = 0; i < 36; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23
			? s[i] != '-'
			: s[i] == '\0' || strchr("0123456789abcdef", s[i]) == NULL)
			return -1;
	return s[36] == '\0' ? 0 : -1;
}

int
instance_decode(const char *text, size_t len, struct instance *in)
{
	const char *uuid, *host, *engine = "";
	json_int_t inode;
	json_t *root;
	int version, rc = -1;

	if ((root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL)) == NULL)
		return -1;
	if (json_unpack(root, "{s:i}", "version", &version) == 0 && version > DATA_VERSION) {
		in->version = version;
		rc = 0;
	} else if (json_unpack(root, "{s:i, s:s, s:s, s:I, s?s !}", "version", &version, "uuid",
		       &uuid, "machine", &host, "inode", &inode, "engine", &engine) == 0 &&
		   version >= 1 && uuid_check(uuid) == 0 && strlen(host) == 64 &&
		   strlen(engine) < sizeof(in->engine)) {
		strlcpy(in->uuid, uuid, sizeof(in->uuid));
		strlcpy(in->machine, host, sizeof(in->machine));
		strlcpy(in->engine, engine, sizeof(in->engine));
		in->inode = inode;
		in->version = version;
		rc = 0;
	}
	json_decref(root);
	return rc;
}

/* -1 with errno. */
static int
instance_save(const struct instance *in)
{
	char *text = instance_encode(in);
	int rc = store_write(STORE_TOP, INSTANCE_FILE, text, strlen(text)), saved = errno;

	free(text);
	errno = saved;
	return rc;
}

static void
instance_write(struct instance *in)
{
	strlcpy(in->machine, machine, sizeof(in->machine));
	in->inode = store_inode();
	if (instance_save(in) == -1)
		fatal_config("the data directory cannot be written: %s", strerror(errno));
}

int
instance_engine(const char *id)
{
	int other = own.engine[0] != '\0' && strcmp(own.engine, id) != 0;

	if (other && load_count() == 0)
		log_info("another Docker engine than before; there were no sandboxes on it");
	else if (other && adopts)
		log_warnx("another Docker engine than before, and --adopt: the sandboxes that it "
			  "does not hold are lost");
	else if (other)
		return -1;
	adopts = 0;
	if (strcmp(own.engine, id) == 0)
		return 0;
	strlcpy(own.engine, id, sizeof(own.engine));
	if (instance_save(&own) == -1)
		log_warn("%s", INSTANCE_FILE); /* the next start asks again */
	return 0;
}

static void
uuid_make(char *out, size_t size)
{
	uint8_t b[16];
	char hex[33];

	arc4random_buf(b, sizeof(b));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	hex_encode(b, sizeof(b), hex);
	snprintf(
	    out, size, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

int
instance_open(int rule)
{
	struct instance in = {0};
	size_t len;
	char *text;
	int known = 0, renewed = 0;

	if ((text = store_read(STORE_TOP, INSTANCE_FILE, 4096, &len)) != NULL) {
		if (instance_decode(text, len, &in) == -1)
			fatal_config("instance.json in the data directory is damaged");
		if (in.version > DATA_VERSION)
			fatal_config("the data directory is of a newer version of this server (its "
				     "form is %d, known here is %d): install that version again",
			    in.version, DATA_VERSION);
		free(text);
		known = 1;
	} else if (errno != ENOENT) {
		fatal_config("instance.json in the data directory: %s", strerror(errno));
	} else if (rule != INSTANCE_NEW && load_count() > 0)
		fatal_config("instance.json is missing from a data directory with sandboxes; put "
			     "it back, or give them "
			     "up with --new-instance");
	if (known && rule == INSTANCE_CHECK) {
		if (strcmp(in.machine, machine) != 0 || in.inode != store_inode())
			fatal_config("the data directory was copied or moved from elsewhere; start "
				     "once with --adopt if "
				     "this server replaces the old one, or with --new-instance if "
				     "both will run");
		if (in.version < DATA_VERSION)
			instance_write(&in);
	} else if (known && rule == INSTANCE_ADOPT) {
		instance_write(&in);
	} else {
		renewed = known || load_count() > 0;
		uuid_make(in.uuid, sizeof(in.uuid));
		in.engine[0] = '\0';
		instance_write(&in);
	}
	adopts = rule == INSTANCE_ADOPT;
	own = in;
	strlcpy(mgr.uuid, in.uuid, sizeof(mgr.uuid));
	return renewed;
}
