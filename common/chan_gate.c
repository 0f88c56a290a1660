/* The one gate through which every packet of a channel passes: does it keep to its row of the
 * table? */
#include "common/chan.h"

const char *
chan_peer_name(enum peer peer)
{
	static const char *const names[] = {"nobody", "parent", "child", "apid", "managerd",
	    "dockerd-proxy", "sessiond", "egressd", "keyd"};

	return (size_t)peer < sizeof(names) / sizeof(names[0]) ? names[peer] : "nobody";
}

static const struct msg_spec *
find_spec(const struct chan_proto *proto, uint32_t type)
{
	size_t i;

	for (i = 0; i < proto->nspecs; i++)
		if (proto->specs[i].type == type)
			return &proto->specs[i];
	return NULL;
}

const char *
chan_message_name(const struct chan_proto *proto, uint32_t type)
{
	const struct msg_spec *spec = find_spec(proto, type);

	return spec != NULL ? spec->name : "?";
}

const char *
chan_check(const struct chan_proto *proto, enum peer from, uint32_t type, size_t body_len, int nfds,
    const struct msg_spec **out)
{
	const struct msg_spec *spec = find_spec(proto, type);

	if (spec == NULL)
		return "unknown type";
	if (spec->from != from)
		return "not for this sender to say";
	if (body_len < spec->fixed)
		return "too short";
	if (body_len - spec->fixed > spec->tail)
		return "too long";
	if (nfds > 1)
		return "more than one descriptor";
	if (spec->fd == FD_NONE && nfds != 0)
		return "a descriptor that it must not carry";
	if (spec->fd == FD_MUST && nfds == 0)
		return "without its descriptor";
	if (out != NULL)
		*out = spec;
	return NULL;
}
