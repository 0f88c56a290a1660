/* Takes the answers of dockerd-proxy apart; one that makes no sense is fatal. */
#include <string.h>
#include <sys/socket.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/engine.h"
#include "managerd/fds.h"

static const struct msg_answer {
	uint32_t call, answer;
} answers[] = {
    {MSG_D_PREPARE, MSG_D_PREPARED},
    {MSG_D_CREATE, MSG_D_CREATED},
    {MSG_D_ATTACH, MSG_D_ATTACHED},
    {MSG_D_INSPECT, MSG_D_STATE},
    {MSG_D_DESTROY, MSG_D_DONE},
    {MSG_D_UPDATE, MSG_D_DONE},
    {MSG_D_RENAME, MSG_D_DONE},
    {MSG_D_LIST, MSG_D_LIST_END},
};

int
answer_fits(uint32_t call, uint32_t type)
{
	size_t i;

	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i].call == call)
			return type == answers[i].answer || type == MSG_D_FAILED;
	return 0;
}

void
answer_container(const char *id)
{
	uint8_t raw[CONTAINER_ID_LEN / 2];

	if (memchr(id, '\0', CONTAINER_ID_LEN + 1) == NULL ||
	    hex_decode(id, raw, sizeof(raw)) == -1)
		fatalx("dockerd-proxy sent a container id that is none");
}

void
answer_read(struct msg *m, struct answer *a)
{
	const struct m_d_failed *failed;
	const struct m_d_state *state;

	memset(a, 0, sizeof(*a));
	a->fd = -1;
	switch (m->type) {
	case MSG_D_FAILED:
		failed = m->payload;
		a->failed = 1;
		if (failed->why > FAIL_GONE)
			fatalx("dockerd-proxy sent an unknown failure");
		a->why = failed->why;
		a->text = m->tail;
		break;
	case MSG_D_PREPARED:
		a->prepared = m->payload;
		if (memchr(a->prepared->image_id, '\0', sizeof(a->prepared->image_id)) == NULL)
			fatalx("dockerd-proxy sent an image id that is none");
		break;
	case MSG_D_CREATED:
		a->container = ((const struct m_d_container *)m->payload)->container;
		answer_container(a->container);
		break;
	case MSG_D_ATTACHED:
		a->container = ((const struct m_d_container *)m->payload)->container;
		answer_container(a->container);
		a->fd = msg_take_fd(m);
		if (!fd_is_socket(a->fd, SOCK_STREAM))
			fatalx("dockerd-proxy sent a stream that is none");
		break;
	case MSG_D_STATE:
		state = m->payload;
		if (state->state > STATE_GONE)
			fatalx("dockerd-proxy sent an unknown state");
		a->state = state->state;
		a->foreign_workspace = state->foreign_workspace != 0;
		break;
	}
}
