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

static void
put_text(json_t *object, const char *key, const char *text)
{
	put(object, key, json_string(text));
}

static void
put_number(json_t *object, const char *key, int64_t n)
{
	put(object, key, json_integer(n));
}

static json_t *
labels(const char *kind)
{
	return json_pack("{ss ss}", LABEL_INSTANCE, proxy.instance, LABEL_KIND, kind);
}

static json_t *
ulimit(const char *name, int64_t soft, int64_t hard)
{
	return json_pack(
	    "{ss sI sI}", "Name", name, "Soft", (json_int_t)soft, "Hard", (json_int_t)hard);
}

static void
put_tmpfs(json_t *tmpfs, const char *path, const char *exec, int64_t mib, int64_t inodes)
{
	char options[128];

	snprintf(options, sizeof(options), "rw,nosuid,nodev,%s,size=%lldm,nr_inodes=%lld,mode=1777",
	    exec, (long long)mib, (long long)inodes);
	put_text(tmpfs, path, options);
}

/*
 * What stays when the processes that made it are gone must leave memory for PID 1 and the next
 * command, or nothing would be left that could be killed: files in memory, also empty ones (about
 * 1 KiB each), shared memory, message queues and semaphores of System V.
 */
static void
put_lasting(json_t *h, int64_t memory)
{
	json_t *tmpfs = json_object(), *sysctls = json_object();
	int64_t tmp = clamp(proxy.config->num[CFG_TMP_SIZE_MB], 1, memory / 2);
	char text[64];

	put_tmpfs(tmpfs, "/tmp", "exec", tmp, memory * 64);
	put_tmpfs(tmpfs, "/dev/shm", "noexec", clamp(16, 1, memory / 16), memory * 8);
	put(h, "Tmpfs", tmpfs);
	snprintf(text, sizeof(text), "%lld", (long long)(memory * MIB / 4096 / 16));
	put_text(sysctls, "kernel.shmall", text);
	snprintf(text, sizeof(text), "%lld", (long long)clamp(memory / 16, 1, 32));
	put_text(sysctls, "kernel.msgmni", text);
	snprintf(text, sizeof(text), "250 %lld 100 128", (long long)(memory * 32));
	put_text(sysctls, "kernel.sem", text);
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

	put_number(h, "NanoCpus", cpus);
	put_number(h, "Memory", memory * MIB);
	put_number(h, "MemorySwap", memory * MIB); /* equal: no swap */
	put_number(h, "PidsLimit", pids);
}

static int64_t
memory_of(int64_t memory, int64_t most)
{
	return clamp(memory, 16, most);
}

static int64_t
pids_of(int64_t pids)
{
	return clamp(pids, 8, proxy.config->num[CFG_MAX_PIDS_LIMIT]);
}

static void
put_limits(json_t *h, const struct m_d_create *m)
{
	/* Those that nobody asked for yet cannot have more than the default. */
	int most = m->sandbox == 0 && m->pool != 0 ? CFG_DEFAULT_MEMORY_MB : CFG_MAX_MEMORY_MB;
	int64_t memory = memory_of(m->memory_mb, proxy.config->num[most]);
	int64_t pids = pids_of(m->pids_limit);
	json_t *limits = json_pack("[oo]", ulimit("core", 0, 0), ulimit("nofile", 1024, 4096));

	/* gVisor counts its own threads too, but has user ids of its own: there a ulimit is the
	 * sandbox's limit. */
	if (strstr(proxy.config->str[CFG_DOCKER_RUNTIME], "runsc") != NULL) {
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
	json_t *u = json_object();

	put_resources(u, m->nano_cpus,
	    memory_of(m->memory_mb, proxy.config->num[CFG_MAX_MEMORY_MB]), pids_of(m->pids_limit));
	return u;
}

static json_t *
host_config(const struct m_d_create *m, const char *volume)
{
	const char *runtime = proxy.config->str[CFG_DOCKER_RUNTIME];
	/* An empty volume takes over what the image has there, unless its user has emptied it. */
	json_t *mount =
	    json_pack("{ss ss ss}", "Type", "volume", "Source", volume, "Target", "/workspace");
	json_t *h = json_object();
	char *seccomp;

	if (asprintf(&seccomp, "seccomp=%s", embed_seccomp) < 0)
		fatalx("out of memory");
	put(h, "CapDrop", json_pack("[s]", "ALL"));
	put(h, "SecurityOpt", json_pack("[ss]", "no-new-privileges:true", seccomp));
	put(h, "ReadonlyRootfs", json_boolean(m->read_only));
	put_text(h, "NetworkMode", m->network ? proxy.config->str[CFG_NETWORK_NAME] : "none");
	put_text(h, "IpcMode", "private");
	put(h, "Init", json_false());
	put_number(h, "OomScoreAdj", 500);
	put(h, "LogConfig", json_pack("{ss s{}}", "Type", "none", "Config"));
	if (m->keep_volume)
		put(mount, "VolumeOptions", json_pack("{sb}", "NoCopy", 1));
	put(h, "Mounts", json_pack("[o]", mount));
	put_limits(h, m);
	if (runtime[0] != '\0')
		put_text(h, "Runtime", runtime);
	free(seccomp);
	return h;
}

json_t *
body_sandbox(const struct m_d_create *m, const char *volume)
{
	json_t *c = json_object();
	char user[32];

	snprintf(user, sizeof(user), "%u:%u", proxy.uid, proxy.gid);
	put_text(c, "Image", m->image_id);
	put_text(c, "User", user);
	put_text(c, "Hostname", "sandbox");
	put_text(c, "WorkingDir", "/workspace");
	put(c, "Entrypoint", json_pack("[s]", INIT_IN_IMAGE));
	put(c, "Cmd", json_array());
	put(c, "Healthcheck", json_pack("{s[s]}", "Test", "NONE"));
	put(c, "OpenStdin", json_true());
	put(c, "StdinOnce", json_false());
	put(c, "Tty", json_false());
	put(c, "Labels", labels(m->sandbox == 0 && m->pool != 0 ? "pool" : "sandbox"));
	put(c, "HostConfig", host_config(m, volume));
	return c;
}

/* The n-th name gets the address 127.64.0.0 + n, on which the sandbox's init listens. */
void
body_hosts(json_t *sandbox, const char *names, size_t len)
{
	json_t *hosts = json_array();
	const char *end, *p;
	char host[EGRESS_NAME_MAX + sizeof(":127.64.255.255")];
	unsigned n = 0;

	for (p = names; p < names + len; p = end + 1) {
		if ((end = memchr(p, '\n', (size_t)(names + len - p))) == NULL)
			end = names + len;
		n++;
		snprintf(host, sizeof(host), "%.*s:127.64.%u.%u", (int)(end - p), p, n >> 8 & 255,
		    n & 255);
		json_array_append_new(hosts, json_string(host));
	}
	put(json_object_get(sandbox, "HostConfig"), "ExtraHosts", hosts);
}

json_t *
body_sweeper(const struct m_d_create *m, const char *volume)
{
	json_t *c = body_sandbox(m, volume);

	put(c, "OpenStdin", json_false());
	put(c, "Cmd", json_pack("[s]", "--sweep"));
	return c;
}

/* Never started. The tmpfs keep a VOLUME of the base from taking what is meant for the image. */
json_t *
body_helper(const char *base_id)
{
	json_t *c = json_object(), *h = json_object();

	put_text(h, "NetworkMode", "none");
	put(h, "CapDrop", json_pack("[s]", "ALL"));
	put(h, "Mounts",
	    json_pack("[{ss ss} {ss ss}]", "Type", "tmpfs", "Target", "/workspace", "Type", "tmpfs",
		"Target", "/.agent-sandbox"));
	put_text(c, "Image", base_id);
	put(c, "Entrypoint", json_pack("[s]", INIT_IN_IMAGE));
	put(c, "Cmd", json_array());
	put(c, "Labels", labels("prepare"));
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
body_volume(const char *name, int pool)
{
	json_t *v = json_object();

	put_text(v, "Name", name);
	put_text(v, "Driver", "local");
	put(v, "Labels", labels(pool ? "pool" : "sandbox"));
	return v;
}

json_t *
body_network(void)
{
	json_t *n = json_object();

	put_text(n, "Name", proxy.config->str[CFG_NETWORK_NAME]);
	put_text(n, "Driver", "bridge");
	put(n, "CheckDuplicate", json_true());
	put(n, "EnableIPv6", json_false());
	put(n, "Options",
	    json_pack("{ss ss}", "com.docker.network.bridge.enable_icc", "false",
		"com.docker.network.bridge.name", NETWORK_INTERFACE));
	put(n, "Labels", json_pack("{ss}", "agent-sandbox.network", "true"));
	return n;
}
