/* Environment and labels of a CREATE: records that apid wrote before it sent the request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/record.h"
#include "managerd/create.h"
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

int
create_records(const uint8_t *p, size_t n, struct strings *env, struct strings *labels)
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
		if (type == RECORD_ENV) {
			if (env_add(env, (const char *)data, len) == -1)
				return -1;
		} else if (type != RECORD_LABEL || label_add(labels, (const char *)data, len) == -1)
			return -1;
	}
	if ((size_t)used != n || len != sizeof(struct r_done))
		return -1;
	return spec_env_check(env) == -1 || spec_labels_check(labels) == -1 ? -1 : 0;
}

void
create_input(int fd, struct strings *env, struct strings *labels)
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
	if (create_records(buf, n, env, labels) == -1)
		fatalx("apid sent an environment or labels out of bounds");
	free(buf);
}
