/*
 * The channel table: finds the server of each frame, keeps the credit of both directions, and holds
 * back requests that would change the workspace while it is frozen, or that must come after
 * everything else has ended.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-init/channel.h"
#include "sandbox-init/exec.h"
#include "sandbox-init/file.h"
#include "sandbox-init/freeze.h"
#include "sandbox-init/mem.h"
#include "sandbox-init/stream.h"
#include "sandbox-init/transfer.h"

/* Less is not used: a frame of a few bytes costs as much as a full one, and more credit comes as
 * soon as the client reads on. */
#define CREDIT_MIN 4096
#define RETURN_STEP (GUEST_WINDOW / 8)
#define HELD_MAX (GUEST_WINDOW + 65536) /* bytes of one channel's waiting frames */

struct held_frame {
	struct held_frame *next;
	uint8_t type;
	uint32_t len;
	uint8_t data[];
};

static struct channel channels[GUEST_CHANNELS + 1];

static void
held_free(struct channel *ch)
{
	struct held_frame *h;

	while ((h = ch->held) != NULL) {
		ch->held = h->next;
		free(h);
	}
	ch->held_end = &ch->held;
}

static void
channel_free(struct channel *ch)
{
	held_free(ch);
	free(ch->args);
	memset(ch, 0, sizeof(*ch));
}

static void
channel_open(struct channel *ch, uint16_t id)
{
	memset(ch, 0, sizeof(*ch));
	ch->id = id;
	ch->out_credit = ch->in_credit = GUEST_WINDOW;
	ch->held_end = &ch->held;
}

void
channel_clean_text(char *text)
{
	unsigned char *p = (unsigned char *)text;
	int i, n;

	while (*p != '\0') {
		n = *p < 0x80             ? 0
		    : (*p & 0xe0) == 0xc0 ? 1
		    : (*p & 0xf0) == 0xe0 ? 2
		    : (*p & 0xf8) == 0xf0 ? 3
					  : -1;
		for (i = 1; i <= n && (p[i] & 0xc0) == 0x80; i++)
			;
		/* Overlong forms, surrogates and what is beyond Unicode are no text either. */
		if (n < 0 || i <= n || *p < 0x20 || *p == 0x7f || (n == 1 && *p < 0xc2) ||
		    (n == 2 && ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f))) ||
		    (n == 3 && ((*p == 0xf0 && p[1] < 0x90) || *p > 0xf4 ||
				   (*p == 0xf4 && p[1] > 0x8f)))) {
			*p++ = '?';
			continue;
		}
		p += n + 1;
	}
}

void
channel_end(struct channel *ch, uint32_t status, int64_t bytes, const char *fmt, ...)
{
	struct g_end end = {.status = status, .bytes = bytes};
	char text[GUEST_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	channel_clean_text(text);
	stream_send(G_END, ch->id, &end, sizeof(end), text, strlen(text));
	channel_free(ch);
}

void
channel_exit(struct channel *ch, const struct g_exit *e)
{
	stream_send(G_EXIT, ch->id, e, sizeof(*e), NULL, 0);
	channel_free(ch);
}

void
channel_started(struct channel *ch)
{
	stream_send(G_STARTED, ch->id, NULL, 0, NULL, 0);
}

void
channel_meta(struct channel *ch, const struct g_meta *m)
{
	stream_send(G_META, ch->id, m, sizeof(*m), NULL, 0);
}

size_t
channel_allows(const struct channel *ch)
{
	if (ch->out_credit < CREDIT_MIN)
		return 0;
	return ch->out_credit < FRAME_DATA_MAX ? ch->out_credit : FRAME_DATA_MAX;
}

void
channel_put(struct channel *ch, uint8_t type, size_t len)
{
	stream_commit(type, ch->id, len);
	ch->out_credit -= (uint32_t)len;
}

void
channel_consumed(struct channel *ch, size_t n)
{
	struct g_number w = {0};

	ch->in_unreturned += (uint32_t)n;
	if (ch->in_unreturned < RETURN_STEP)
		return;
	w.n = ch->in_unreturned;
	ch->in_credit += w.n;
	ch->in_unreturned = 0;
	stream_send(G_WINDOW, ch->id, &w, sizeof(w), NULL, 0);
}

/* Requests and ends of requests that change the workspace wait while it stands still for a
 * snapshot. */
static int
must_wait(const struct channel *ch, const struct frame *f)
{
	struct g_exec ex;
	struct g_file file;

	switch (f->type) {
	case G_EXEC:
		if (freeze_active())
			return 1;
		memcpy(&ex, f->data, f->len < sizeof(ex) ? 0 : sizeof(ex));
		return f->len >= sizeof(ex) && exec_must_wait(ex.kill_others);
	case G_WRITE:
	case G_REMOVE:
	case G_IMPORT:
	case G_SIGNAL: /* SIGCONT would end it */
		return freeze_active();
	case G_EXPORT:
		memcpy(&file, f->data, f->len < sizeof(file) ? 0 : sizeof(file));
		return (freeze_active() || transfer_cleaning()) && f->len >= sizeof(file) &&
		       (file.flags & G_FLAG_FREEZE);
	case G_DATA_END:
		return freeze_active() && file_is_write(ch);
	default:
		return 0;
	}
}

static void
hold(struct channel *ch, const struct frame *f)
{
	struct held_frame *h = mem_new(sizeof(*h) + f->len);

	h->type = f->type;
	h->len = f->len;
	memcpy(h->data, f->data, f->len);
	*ch->held_end = h;
	ch->held_end = &h->next;
}

/* A request that never began is called off: it owes its final frame all the same. */
static void
end_held(struct channel *ch)
{
	struct g_exit killed = {.exit_code = 137, .signal = 9, .peak_memory_bytes = -1};

	if (ch->held->type == G_EXEC)
		channel_exit(ch, &killed);
	else
		channel_end(ch, 409, 0, "called off before it began");
}

static void
request(struct channel *ch, const struct frame *f)
{
	switch (f->type) {
	case G_EXEC_ARGS:
		exec_args(ch, f->data, f->len);
		break;
	case G_EXEC:
		exec_open(ch, f->data, f->len);
		break;
	case G_READ:
	case G_WRITE:
	case G_LIST:
	case G_REMOVE:
		file_open(ch, f->type, f->data, f->len);
		break;
	case G_EXPORT:
	case G_IMPORT:
		transfer_open(ch, f->type, f->data, f->len);
		break;
	case G_CLOSE:
		if (ch->args != NULL)
			channel_end(ch, 409, 0, "called off before it began");
		break;
	default: /* it crossed our final frame */
		break;
	}
}

static void
take_data(struct channel *ch, const struct frame *f)
{
	if (f->len > ch->in_credit || ch->ops->data == NULL) {
		if (ch->ops->close != NULL)
			ch->ops->close(ch);
		return;
	}
	ch->in_credit -= f->len;
	ch->in_bytes += f->len;
	ch->ops->data(ch, f->data, f->len);
}

static uint32_t
number_of(const struct frame *f)
{
	struct g_number n;

	if (f->len < sizeof(n))
		return 0;
	memcpy(&n, f->data, sizeof(n));
	return n.n;
}

static void
served(struct channel *ch, const struct frame *f)
{
	struct g_size size = {.bytes = -1};
	uint32_t n;

	switch (f->type) {
	case G_STDIN:
	case G_DATA:
		take_data(ch, f);
		break;
	case G_DATA_END:
		memcpy(&size, f->data, f->len < sizeof(size) ? 0 : sizeof(size));
		/* FALLTHROUGH */
	case G_STDIN_END:
		if (ch->ops->data_end != NULL)
			ch->ops->data_end(ch, size.bytes);
		break;
	case G_SIGNAL:
		if (ch->ops->signal != NULL)
			ch->ops->signal(ch, number_of(f));
		break;
	case G_KILL:
		if (ch->ops->kill != NULL)
			ch->ops->kill(ch);
		break;
	case G_CLOSE:
		if (ch->ops->close != NULL)
			ch->ops->close(ch);
		break;
	case G_WINDOW:
		n = number_of(f);
		ch->out_credit =
		    n > GUEST_WINDOW - ch->out_credit ? GUEST_WINDOW : ch->out_credit + n;
		if (ch->ops->credit != NULL)
			ch->ops->credit(ch);
		break;
	default:
		break;
	}
}

static void
dispatch(struct channel *ch, const struct frame *f)
{
	if (must_wait(ch, f))
		hold(ch, f);
	else if (ch->ops == NULL)
		request(ch, f);
	else
		served(ch, f);
}

void
channel_frame(const struct frame *f)
{
	struct channel *ch;
	struct held_frame *h;
	size_t held = 0;

	if (f->channel < 1 || f->channel > GUEST_CHANNELS)
		return;
	ch = &channels[f->channel];
	if (ch->id == 0)
		channel_open(ch, f->channel);
	if (ch->held == NULL) {
		dispatch(ch, f);
		if (ch->ops == NULL && ch->args == NULL && ch->held == NULL)
			channel_free(ch);
		return;
	}
	for (h = ch->held; h != NULL; h = h->next)
		held += h->len;
	if (f->type == G_CLOSE || f->type == G_KILL || held + f->len > HELD_MAX) {
		if (ch->ops == NULL) {
			end_held(ch);
			return;
		}
		held_free(ch);
		dispatch(ch, f);
		return;
	}
	hold(ch, f);
}

void
channel_release(void)
{
	struct held_frame *h, *next;
	struct channel *ch;
	struct frame f;
	int i;

	for (i = 1; i <= GUEST_CHANNELS; i++) {
		ch = &channels[i];
		h = ch->held;
		ch->held = NULL;
		ch->held_end = &ch->held;
		for (; h != NULL; h = next) {
			next = h->next;
			f = (struct frame){.type = h->type,
			    .channel = (uint16_t)i,
			    .len = h->len,
			    .data = h->data};
			channel_frame(&f);
			free(h);
		}
	}
}

void
channel_reset(void)
{
	struct channel *ch;
	int i;

	for (i = 1; i <= GUEST_CHANNELS; i++) {
		ch = &channels[i];
		if (ch->ops != NULL && ch->ops->drop != NULL)
			ch->ops->drop(ch);
		channel_free(ch);
	}
}

/* Starts elsewhere on each turn, so that the first channel does not take all the room. */
int
channel_pump(void)
{
	static unsigned turn;
	struct channel *ch;
	unsigned i;
	int more = 0;

	turn++;
	for (i = 0; i < GUEST_CHANNELS; i++) {
		ch = &channels[1 + (i + turn) % GUEST_CHANNELS];
		if (ch->ops == NULL || ch->ops->pump == NULL)
			continue;
		more |= ch->ops->pump(ch);
	}
	return more;
}
