/* The bodies of all calls that have one, made from typed fields and constants: what a sandbox's
 * container is. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024 * 1024)
#define INIT_PATH_IN "/.agent-sandbox/init"
#define NETWORK_INTERFACE "agent-sandbox0" /* fixed, so that packet filter rules can name it */

static json_t *
checked(json_t *json, json_error_t *e)
{
	if (json == NULL)
		fatalx("json_pack: %s", e->text);
	return json;
}

static int64_t
clamp(int64_t n, int64_t low, int64_t high)
{
	return n < low ? low : n > high ? high : n;
}

/* managerd has checked them against the same maxima; it is not believed. */
void
limits_clamp(struct m_d_create *m)
{
	const int64_t *max = proxy.config->num;

	m->nano_cpus = clamp(m->nano_cpus, 10000000, max[CFG_MAX_CPUS]); /* the engine's least */
	m->nano_cpus = clamp(m->nano_cpus, 10000000, proxy.nano_cpus);
	m->memory_mb = clamp(m->memory_mb, 16, max[CFG_MAX_MEMORY_MB]);
	m->pids_limit = clamp(m->pids_limit, 8, max[CFG_MAX_PIDS_LIMIT]);
}

static json_t *
labels(const char *kind)
{
	json_error_t e;

	return checked(json_pack_ex(&e, 0, "{ss ss}", "agent-sandbox.instance", proxy.instance,
			   "agent-sandbox.kind", kind),
	    &e);
}

static json_t *
body_ulimits(int64_t nproc)
{
	json_t *list = json_pack("[{ss si si} {ss si si}]", "Name", "core", "Soft", 0, "Hard", 0,
	    "Name", "nofile", "Soft", 1024, "Hard", 4096);

	if (nproc > 0)
		json_array_append_new(list, json_pack("{ss sI sI}", "Name", "nproc", "Soft",
						(json_int_t)nproc, "Hard", (json_int_t)nproc));
	return list;
}

/* /tmp and /dev/shm are memory: together little more than half of it, or a full one would leave
 * none for PID 1. */
static json_t *
body_host(const struct m_d_create *m, const char *volume)
{
	const char *runtime = proxy.config->str[CFG_DOCKER_RUNTIME];
	int64_t tmp = clamp(proxy.config->num[CFG_TMP_SIZE_MB], 1, m->memory_mb / 2);
	int64_t shm = clamp(16, 1, m->memory_mb / 16), pids = m->pids_limit, nproc = 0;
	char options[96], *seccomp;
	json_error_t e;

	if (strstr(runtime, "runsc") != NULL) { /* its own threads count too */
		nproc = pids;
		pids = pids * 4 + 1024;
	}
	snprintf(
	    options, sizeof(options), "rw,nosuid,nodev,exec,size=%lldm,mode=1777", (long long)tmp);
	if (asprintf(&seccomp, "seccomp=%.*s", (int)(embed_seccomp_end - embed_seccomp),
		embed_seccomp) < 0)
		fatal("malloc");
	json_t *host = json_pack_ex(&e, 0,
	    "{s{ss s{}} ss sb s[s] s[ss] sb sI sI sI sI si ss sI s{ss} s[{ss ss ss}] so}",
	    "LogConfig", "Type", "none", "Config", "NetworkMode",
	    m->network ? proxy.config->str[CFG_NETWORK_NAME] : "none", "Init", 0, "CapDrop", "ALL",
	    "SecurityOpt", "no-new-privileges:true", seccomp, "ReadonlyRootfs", m->read_only != 0,
	    "Memory", (json_int_t)m->memory_mb * MIB, "MemorySwap", (json_int_t)m->memory_mb * MIB,
	    "NanoCpus", (json_int_t)m->nano_cpus, "PidsLimit", (json_int_t)pids, "OomScoreAdj", 500,
	    "IpcMode", "private", "ShmSize", (json_int_t)shm * MIB, "Tmpfs", "/tmp", options,
	    "Mounts", "Type", "volume", "Source", volume, "Target", "/workspace", "Ulimits",
	    body_ulimits(nproc));
	free(seccomp);
	checked(host, &e);
	if (runtime[0] != '\0')
		json_object_set_new(host, "Runtime", json_string(runtime));
	return host;
}

json_t *
body_sandbox(const struct m_d_create *m, const char *name)
{
	char user[32];
	json_error_t e;

	snprintf(user, sizeof(user), "%u:%u", proxy.uid, proxy.gid);
	return checked(
	    json_pack_ex(&e, 0, "{ss ss ss s[s] s[] ss so sb sb sb s{s[s]} so}", "Image",
		m->image_id, "Hostname", "sandbox", "User", user, "Entrypoint", INIT_PATH_IN, "Cmd",
		"WorkingDir", "/workspace", "Labels", labels("sandbox"), "Tty", 0, "OpenStdin", 1,
		"StdinOnce", 0, "Healthcheck", "Test", "NONE", "HostConfig", body_host(m, name)),
	    &e);
}

/* Never started. The tmpfs keeps a VOLUME of the base from hiding what is unpacked there. */
json_t *
body_helper(const char *base_id)
{
	json_error_t e;

	return checked(
	    json_pack_ex(&e, 0, "{ss s[s] s[] so s{ss s[{ss ss} {ss ss}] s[s]}}", "Image", base_id,
		"Entrypoint", INIT_PATH_IN, "Cmd", "Labels", labels("prepare"), "HostConfig",
		"NetworkMode", "none", "Mounts", "Type", "tmpfs", "Target", "/workspace", "Type",
		"tmpfs", "Target", "/.agent-sandbox", "CapDrop", "ALL"),
	    &e);
}

/* A commit hands the helper's labels on to the image, and so to every container of it: emptied
 * here. */
json_t *
body_commit(const char *key)
{
	json_error_t e;

	return checked(json_pack_ex(&e, 0, "{s{ss ss ss}}", "Labels", "agent-sandbox.instance", "",
			   "agent-sandbox.kind", "", "agent-sandbox.prepared", key),
	    &e);
}

json_t *
body_volume(const char *name)
{
	json_error_t e;

	return checked(json_pack_ex(&e, 0, "{ss ss so}", "Name", name, "Driver", "local", "Labels",
			   labels("sandbox")),
	    &e);
}

json_t *
body_network(void)
{
	json_error_t e;

	return checked(
	    json_pack_ex(&e, 0, "{ss ss sb sb s{ss ss} s{ss}}", "Name",
		proxy.config->str[CFG_NETWORK_NAME], "Driver", "bridge", "CheckDuplicate", 1,
		"EnableIPv6", 0, "Options", "com.docker.network.bridge.enable_icc", "false",
		"com.docker.network.bridge.name", NETWORK_INTERFACE, "Labels",
		"agent-sandbox.network", "true"),
	    &e);
}
