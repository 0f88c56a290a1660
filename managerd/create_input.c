/* Environment, labels and egress allowlist of a CREATE: records that apid wrote before it sent the
 * request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/record.h"
#include "managerd/create_input.h"
#include "managerd/fds.h"
#include "proto/apid_managerd.h"
#include "proto/data.h"

static int
label_add(struct strings *labels, const char *p, size_t len)
{
	const char *nul = memchr(p, '\0', len);

	if (nul == NULL || memchr(nul + 1, '\0', p + len - nul - 1) != NULL ||
	    labels->count >= LABELS_MAX * 2)
		return -1;
	strings_add(labels, p, nul - p);
	strings_add(labels, nul + 1, p + len - nul - 1);
	return 0;
}

static int
env_add(struct strings *env, const char *p, size_t len)
{
	if (memchr(p, '\0', len) != NULL || env->count >= ENV_MAX)
		return -1;
	strings_add(env, p, len);
	return 0;
}

static int
egress_add(struct strings *egress, const char *p, size_t len)
{
	if (memchr(p, '\0', len) != NULL || egress->count >= EGRESS_ENTRIES_MAX)
		return -1;
	strings_add(egress, p, len);
	return egress->len > EGRESS_TEXT_MAX ? -1 : 0;
}

static int
create_record(uint8_t type, const char *p, size_t len, struct create_input *in)
{
	switch (type) {
	case RECORD_ENV:
		return env_add(&in->env, p, len);
	case RECORD_LABEL:
		return label_add(&in->labels, p, len);
	case RECORD_EGRESS:
		return egress_add(&in->egress, p, len);
	default:
		return -1;
	}
}

int
create_records(const uint8_t *p, size_t n, struct create_input *in)
{
	const uint8_t *data;
	size_t len;
	int64_t used;
	uint8_t type;

	for (;; p += used, n -= used) {
		used = record_parse(p, n, RECORD_MAX, &type, &data, &len);
		if (used <= 0)
			return -1;
		if (type == RECORD_DONE)
			break;
		if (create_record(type, (const char *)data, len, in) == -1)
			return -1;
	}
	if ((size_t)used != n || len != sizeof(struct r_done))
		return -1;
	return spec_env_check(&in->env) == -1 || spec_labels_check(&in->labels) == -1 ? -1 : 0;
}

void
create_input_read(int fd, struct create_input *in)
{
	size_t n = 0;
	ssize_t got;
	uint8_t *buf;

	if (!fd_is_socket(fd, SOCK_STREAM))
		fatalx("apid sent no data socket");
	if ((buf = malloc(CREATE_RECORDS_MAX)) == NULL)
		fatal("create");
	while ((got = recv(fd, buf + n, CREATE_RECORDS_MAX - n, MSG_DONTWAIT)) != 0) {
		if (got == -1 && errno == EINTR)
			continue;
		if (got == -1 && errno == EAGAIN)
			break;
		if (got == -1 || (n += got) == CREATE_RECORDS_MAX)
			fatalx("apid sent no environment that can be read");
	}
	close(fd);
	if (create_records(buf, n, in) == -1)
		fatalx("apid sent an environment, labels or a list out of bounds");
	free(buf);
}

void
create_input_clear(struct create_input *in)
{
	strings_clear(&in->env);
	strings_clear(&in->labels);
	strings_clear(&in->egress);
}
