/* The bodies of all calls that have one, from typed fields and constants: here stands what a
 * sandbox's container is. */
#include "dockerd-proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/egress.h"

#define MIB (INT64_C(1024) * 1024)
#define INIT_IN_IMAGE "/.agent-sandbox/init"
#define NETWORK_INTERFACE "agent-sandbox0" /* fixed, so that packet filter rules can name it */

static int64_t
clamp(int64_t n, int64_t low, int64_t high)
{
	return n < low ? low : n > high ? high : n;
}

static void
put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) != 0)
		fatalx("body: %s", key);
}

/* Of what belongs to a sandbox or a member of the pool; with NULL to a helper. */
static json_t *
labels(const struct m_d_create *m)
{
	const char *kind = m == NULL ? "prepare" : m->sandbox == 0 ? "pool" : "sandbox";

	return json_pack("{ss ss}", LABEL_INSTANCE, proxy.instance, LABEL_KIND, kind);
}

static json_t *
ulimit(const char *name, int64_t soft, int64_t hard)
{
	return json_pack(
	    "{ss sI sI}", "Name", name, "Soft", (json_int_t)soft, "Hard", (json_int_t)hard);
}

static json_t *
tmpfs(const char *exec, int64_t mib, int64_t inodes)
{
	return json_sprintf("rw,nosuid,nodev,%s,size=%lldm,nr_inodes=%lld,mode=1777", exec,
	    (long long)mib, (long long)inodes);
}

/*
 * What stays when the processes that made it are gone must leave memory for PID 1 and the next
 * command, or nothing would be left that could be killed: files in memory, also empty ones (about
 * 1 KiB each), shared memory, message queues and semaphores of System V.
 */
static void
put_lasting(json_t *h, int64_t memory)
{
	int64_t tmp = clamp(proxy.config->num[CFG_TMP_SIZE_MB], 1, memory / 2);
	int64_t shm = clamp(16, 1, memory / 16), queues = clamp(memory / 16, 1, 32);
	json_t *tmps = json_object(), *sysctls = json_object();

	put(tmps, "/tmp", tmpfs("exec", tmp, memory * 64));
	put(tmps, "/dev/shm", tmpfs("noexec", shm, memory * 8));
	put(h, "Tmpfs", tmps);
	put(sysctls, "kernel.shmall", json_sprintf("%lld", (long long)(memory * MIB / 4096 / 16)));
	put(sysctls, "kernel.msgmni", json_sprintf("%lld", (long long)queues));
	put(sysctls, "kernel.sem", json_sprintf("250 %lld 100 128", (long long)(memory * 32)));
	if (proxy.own_ipc)
		put(h, "Sysctls", sysctls);
	else
		json_decref(sysctls);
}

/* managerd has checked the limits against the same maxima; it is not believed. */
static void
put_resources(json_t *h, int64_t nano_cpus, int64_t memory, int64_t pids)
{
	const int64_t *max = proxy.config->num;
	int64_t cpus =
	    clamp(clamp(nano_cpus, 10000000, max[CFG_MAX_CPUS]), 10000000, proxy.nano_cpus);

	put(h, "NanoCpus", json_integer(cpus));
	put(h, "Memory", json_integer(memory * MIB));
	put(h, "MemorySwap", json_integer(memory * MIB)); /* equal: no swap */
	put(h, "PidsLimit", json_integer(pids));
}

static void
put_limits(json_t *h, const struct m_d_create *m)
{
	/* Those that nobody asked for yet cannot have more than the default. */
	int most = m->sandbox == 0 && m->pool != 0 ? CFG_DEFAULT_MEMORY_MB : CFG_MAX_MEMORY_MB;
	int64_t memory = clamp(m->memory_mb, 16, proxy.config->num[most]);
	int64_t pids = clamp(m->pids_limit, 8, proxy.config->num[CFG_MAX_PIDS_LIMIT]);
	json_t *limits = json_pack("[oo]", ulimit("core", 0, 0), ulimit("nofile", 1024, 4096));

	/* gVisor counts its own threads, too; but there a ulimit is one sandbox's. */
	if (proxy.sentry) {
		json_array_append_new(limits, ulimit("nproc", pids, pids));
		pids = pids * 4 + 1024;
	}
	put_resources(h, m->nano_cpus, memory, pids);
	put(h, "Ulimits", limits);
	put_lasting(h, memory);
}

json_t *
body_update(const struct m_d_update *m)
{
	const int64_t *max = proxy.config->num;
	json_t *u = json_object();

	put_resources(u, m->nano_cpus, clamp(m->memory_mb, 16, max[CFG_MAX_MEMORY_MB]),
	    clamp(m->pids_limit, 8, max[CFG_MAX_PIDS_LIMIT]));
	return u;
}

static json_t *
host_config(const struct m_d_create *m, const char *volume)
{
	const char *runtime = proxy.config->str[CFG_DOCKER_RUNTIME];
	/* An empty volume takes over what the image has there, unless its user has emptied it. One
	 * that was removed meanwhile is made anew, and must be ours. */
	json_t *mount = json_pack("{ss ss ss s{so sb}}", "Type", "volume", "Source", volume,
	    "Target", "/workspace", "VolumeOptions", "Labels", labels(m), "NoCopy", m->keep_volume);
	json_t *h = json_object();

	put(h, "CapDrop", json_pack("[s]", "ALL"));
	put(h, "SecurityOpt",
	    json_pack("[so]", "no-new-privileges:true",
		json_sprintf("seccomp=%s", proxy.sentry ? embed_seccomp_sentry : embed_seccomp)));
	put(h, "ReadonlyRootfs", json_boolean(m->read_only));
	put(h, "NetworkMode",
	    json_string(m->network ? proxy.config->str[CFG_NETWORK_NAME] : "none"));
	put(h, "IpcMode", json_string("private"));
	put(h, "Init", json_false());
	put(h, "OomScoreAdj", json_integer(500));
	put(h, "LogConfig", json_pack("{ss s{}}", "Type", "none", "Config"));
	put(h, "Mounts", json_pack("[o]", mount));
	put_limits(h, m);
	if (runtime[0] != '\0')
		put(h, "Runtime", json_string(runtime));
	return h;
}

/* The n-th name gets the address 127.64.0.0 + n, on which the sandbox's init listens. */
static json_t *
hosts_of(const char *names, size_t len)
{
	struct egress_walk walk = {names, len, 0};
	char name[EGRESS_NAME_MAX + 1];
	json_t *hosts = json_array();

	for (unsigned n = 1; egress_next_host(&walk, name) == 1; n++)
		json_array_append_new(
		    hosts, json_sprintf("%s:127.64.%u.%u", name, n >> 8 & 255, n & 255));
	return hosts;
}

json_t *
body_sandbox(const struct m_d_create *m, const char *volume, const char *names, size_t len)
{
	json_t *c = json_object(), *h = host_config(m, volume);

	put(c, "Image", json_string(m->image_id));
	put(c, "User", json_sprintf("%u:%u", proxy.uid, proxy.gid));
	put(c, "Hostname", json_string("sandbox"));
	put(c, "WorkingDir", json_string("/workspace"));
	put(c, "Entrypoint", json_pack("[s]", INIT_IN_IMAGE));
	put(c, "Cmd", json_array());
	put(c, "Healthcheck", json_pack("{s[s]}", "Test", "NONE"));
	put(c, "OpenStdin", json_true());
	put(c, "StdinOnce", json_false());
	put(c, "Tty", json_false());
	put(c, "Labels", labels(m));
	if (len > 0)
		put(h, "ExtraHosts", hosts_of(names, len));
	put(c, "HostConfig", h);
	return c;
}

json_t *
body_sweeper(const struct m_d_create *m, const char *volume)
{
	json_t *c = body_sandbox(m, volume, NULL, 0);

	put(c, "OpenStdin", json_false());
	put(c, "Cmd", json_pack("[s]", "--sweep"));
	return c;
}

/* Never started. The tmpfs keep a VOLUME of the base from taking what is meant for the image. */
json_t *
body_helper(const char *base_id)
{
	json_t *c = json_object(), *h = json_object();

	put(h, "NetworkMode", json_string("none"));
	put(h, "CapDrop", json_pack("[s]", "ALL"));
	put(h, "Mounts",
	    json_pack("[{ss ss} {ss ss}]", "Type", "tmpfs", "Target", "/workspace", "Type", "tmpfs",
		"Target", "/.agent-sandbox"));
	put(c, "Image", json_string(base_id));
	put(c, "Entrypoint", json_pack("[s]", INIT_IN_IMAGE));
	put(c, "Cmd", json_array());
	put(c, "Labels", labels(NULL));
	put(c, "HostConfig", h);
	return c;
}

/* A commit hands the helper's labels on to the image, and so to every container of it: emptied
 * here. */
json_t *
body_commit(const char *key)
{
	json_t *c = json_object();

	put(c, "Labels",
	    json_pack("{ss ss ss}", LABEL_INSTANCE, "", LABEL_KIND, "", LABEL_PREPARED, key));
	return c;
}

json_t *
body_volume(const struct m_d_create *m, const char *name)
{
	json_t *v = json_object();

	put(v, "Name", json_string(name));
	put(v, "Driver", json_string("local"));
	put(v, "Labels", labels(m));
	return v;
}

json_t *
body_network(void)
{
	json_t *n = json_object();

	put(n, "Name", json_string(proxy.config->str[CFG_NETWORK_NAME]));
	put(n, "Driver", json_string("bridge"));
	put(n, "CheckDuplicate", json_true());
	put(n, "EnableIPv6", json_false());
	put(n, "Options",
	    json_pack("{ss ss}", "com.docker.network.bridge.enable_icc", "false",
		"com.docker.network.bridge.name", NETWORK_INTERFACE));
	put(n, "Labels", json_pack("{ss}", "agent-sandbox.network", "true"));
	return n;
}
