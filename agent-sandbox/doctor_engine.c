/* Asks the engine over its socket what it is, and judges whether sandboxes would work and hold
 * there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <curl/curl.h>
#include <jansson.h>

#include "agent-sandbox/doctor.h"

#define ANSWER_MAX (4 * 1024 * 1024)
#define TIMEOUT_S 5
#define API_MIN 41 /* 1.41, as dockerd-proxy */
#define API_MAX 55

struct answer {
	char *text;
	size_t len;
};

static size_t
collect(char *data, size_t size, size_t n, void *arg)
{
	struct answer *a = arg;
	char *more;

	n *= size;
	if (a->len + n > ANSWER_MAX || (more = realloc(a->text, a->len + n + 1)) == NULL)
		return 0;
	a->text = more;
	memcpy(a->text + a->len, data, n);
	a->len += n;
	a->text[a->len] = '\0';
	return n;
}

/* The body of a 200, to be freed; else NULL and why. */
static char *
ask(const char *socket_path, const char *path, char why[CURL_ERROR_SIZE])
{
	struct answer a = {0};
	CURL *curl = curl_easy_init();
	char url[128];
	long status = 0;

	*why = '\0';
	if (curl == NULL)
		return NULL;
	snprintf(url, sizeof(url), "http://localhost%s", path);
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	if (curl_easy_perform(curl) == CURLE_OK)
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	if (status == 200 && a.text != NULL)
		return a.text;
	if (status != 0)
		snprintf(why, CURL_ERROR_SIZE, "it answers with status %ld", status);
	free(a.text);
	return NULL;
}

static const char *
text_of(const json_t *object, const char *name)
{
	const char *s = json_string_value(json_object_get(object, name));

	return s != NULL ? s : "";
}

/* "1.41" is 41; -1 for anything else. */
static int
api_minor(const char *s)
{
	return strncmp(s, "1.", 2) == 0 ? atoi(s + 2) : -1;
}

static int
judge_components(const json_t *components)
{
	const json_t *c;
	int found = 0, n;
	size_t i;

	json_array_foreach (components, i, c) {
		const char *name = text_of(c, "Name"), *version = text_of(c, "Version");

		if (strcasecmp(name, "runc") != 0)
			continue;
		if ((n = facts_tell("runc", version)) == 0)
			doctor_say(FINDING_OK,
			    "runc %.32s: no known weakness in this program's list", version);
		found += n;
	}
	return found;
}

void
doctor_judge_version(const char *json)
{
	json_t *v = json_loads(json, 0, NULL);
	const json_t *components = json_object_get(v, "Components"), *c;
	const char *version = text_of(v, "Version"), *max = text_of(v, "ApiVersion"),
		   *min = text_of(v, "MinAPIVersion");
	int found = 0;
	size_t i;

	json_array_foreach (components, i, c) {
		if (strstr(text_of(c, "Name"), "Podman") != NULL) {
			doctor_say(FINDING_FAIL, "this is Podman, which is not supported: it "
						 "closes a sandbox's input when an "
						 "attached client leaves");
			json_decref(v);
			return;
		}
	}
	if (*version == '\0')
		doctor_say(FINDING_FAIL, "the engine's answer to /version is not understood");
	else if (api_minor(max) < API_MIN || api_minor(min) > API_MAX)
		doctor_say(FINDING_FAIL,
		    "engine %.32s speaks API %.8s to %.8s; 1.%d to 1.%d are known here", version,
		    min, max, API_MIN, API_MAX);
	else
		doctor_say(FINDING_OK, "engine %.32s, API %.8s to %.8s", version, min, max);
	if (*version != '\0' && (found = facts_tell("engine", version)) == 0)
		doctor_say(
		    FINDING_OK, "engine %.32s: no known weakness in this program's list", version);
	found += judge_components(components);
	if (found > 0)
		doctor_say(FINDING_NOTE,
		    "these go by the number of the version; a distribution may "
		    "have mended them without a new one");
	json_decref(v);
}

static void
judge_limits(const json_t *info)
{
	static const char *const limits[] = {"MemoryLimit", "PidsLimit", "CpuCfsQuota"};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (!json_is_true(json_object_get(info, limits[i])))
			doctor_say(FINDING_FAIL,
			    "the engine cannot enforce %s: its cgroup controller is missing",
			    limits[i]);
	if (json_is_false(json_object_get(info, "SwapLimit")))
		doctor_say(FINDING_WEAK,
		    "the engine cannot limit swap: a sandbox may use as much again as its memory");
}

/* gVisor loads the filter that a container comes with only when it is told to. */
static void
judge_gvisor(const json_t *runtime)
{
	const json_t *arg;
	size_t i;

	json_array_foreach (json_object_get(runtime, "runtimeArgs"), i, arg) {
		const char *text = json_is_string(arg) ? json_string_value(arg) : "";

		if (strcmp(text, "--oci-seccomp") == 0 || strcmp(text, "--oci-seccomp=true") == 0)
			return;
	}
	doctor_say(FINDING_WEAK,
	    "gVisor has no system call filter inside: give runsc the argument --oci-seccomp "
	    "(runtimeArgs in /etc/docker/daemon.json)");
}

static void
judge_runtime(const struct settings *s, const json_t *info)
{
	const char *want = s->c.str[CFG_DOCKER_RUNTIME], *name;
	json_t *runtimes = json_object_get(info, "Runtimes"), *value;
	char list[256] = "";

	json_object_foreach (runtimes, name, value) {
		snprintf(list + strlen(list), sizeof(list) - strlen(list), " %.40s", name);
	}
	if (*want != '\0' && json_object_get(runtimes, want) == NULL)
		doctor_say(FINDING_FAIL,
		    "AGENT_SANDBOX_DOCKER_RUNTIME: the engine has no runtime %s, only%s", want,
		    list);
	else
		doctor_say(FINDING_OK, "runtimes:%s; sandboxes use %s", list,
		    *want != '\0' ? want : text_of(info, "DefaultRuntime"));
	if (strstr(want, "runsc") != NULL && (value = json_object_get(runtimes, want)) != NULL)
		judge_gvisor(value);
}

/* Profiles that the engine puts around every container. */
static void
judge_security(const json_t *info)
{
	const json_t *options = json_object_get(info, "SecurityOptions"), *o;
	int seccomp = 0, mac = 0, userns = 0;
	size_t i;

	json_array_foreach (options, i, o) {
		const char *s = json_string_value(o) != NULL ? json_string_value(o) : "";

		seccomp |= strstr(s, "name=seccomp") != NULL;
		mac |= strstr(s, "name=apparmor") != NULL || strstr(s, "name=selinux") != NULL;
		userns |= strstr(s, "name=userns") != NULL || strstr(s, "name=rootless") != NULL;
	}
	if (!seccomp)
		doctor_say(FINDING_FAIL,
		    "the engine has no seccomp: sandboxes would run without a system call filter");
	if (!mac)
		doctor_say(FINDING_WEAK, "no AppArmor or SELinux around containers");
	if (!userns)
		doctor_say(FINDING_NOTE,
		    "no user namespaces in the engine: uids in a sandbox are uids of the host, and "
		    "share "
		    "what the kernel counts per user (inotify instances, pipe pages)");
}

void
doctor_judge_info(const struct settings *s, const char *json)
{
	json_t *info = json_loads(json, 0, NULL);
	const json_t *status, *pair;
	const char *driver = text_of(info, "Driver"), *backing = "";
	size_t i;

	if (info == NULL) {
		doctor_say(FINDING_FAIL, "the engine's answer to /info is not understood");
		return;
	}
	judge_limits(info);
	judge_runtime(s, info);
	judge_security(info);
	if (strcmp(text_of(info, "CgroupVersion"), "1") == 0)
		doctor_say(FINDING_NOTE,
		    "cgroup version 1: the buffers of a sandbox's sockets are not part of its "
		    "memory "
		    "limit; only net.ipv4.tcp_mem and udp_mem of the host bound them");
	status = json_object_get(info, "DriverStatus");
	json_array_foreach (status, i, pair) {
		if (json_string_value(json_array_get(pair, 0)) != NULL &&
		    strcmp(json_string_value(json_array_get(pair, 0)), "Backing Filesystem") == 0)
			backing = json_string_value(json_array_get(pair, 1));
	}
	doctor_say(FINDING_OK, "storage %.32s on %.32s, cgroup v%.2s by %.16s", driver,
	    backing != NULL ? backing : "?", text_of(info, "CgroupVersion"),
	    text_of(info, "CgroupDriver"));
	doctor_say(FINDING_NOTE, "volumes have no quota (\"workspace_quota\":\"soft\"): a "
				 "sandbox's commands are ended when the "
				 "disk has less than AGENT_SANDBOX_DISK_FLOOR_MB");
	if (json_is_true(json_object_get(info, "LiveRestoreEnabled")))
		doctor_say(FINDING_OK, "live-restore: sandboxes live on while the engine restarts");
	else
		doctor_say(FINDING_NOTE, "no live-restore: when the engine restarts, sandboxes "
					 "stop; /workspace is kept, /tmp and "
					 "processes are lost");
	json_decref(info);
}

void
doctor_engine(const struct settings *s)
{
	char why[CURL_ERROR_SIZE], *json;

	if (access(s->engine, F_OK) == -1) {
		doctor_say(FINDING_FAIL,
		    "there is no engine at %s: start it, or name another socket with DOCKER_HOST; "
		    "it is taken up when it comes",
		    s->engine);
		return;
	}
	if (access(s->engine, W_OK) == -1) {
		doctor_say(FINDING_FAIL,
		    "this user may not use the engine at %s: be root, or in the socket's group",
		    s->engine);
		return;
	}
	if ((json = ask(s->engine, "/version", why)) == NULL) {
		doctor_say(FINDING_FAIL, "the engine at %s does not answer: %s", s->engine, why);
		return;
	}
	doctor_judge_version(json);
	free(json);
	if ((json = ask(s->engine, "/info", why)) == NULL) {
		doctor_say(FINDING_FAIL, "the engine's /info: %s", why);
		return;
	}
	doctor_judge_info(s, json);
	free(json);
}
