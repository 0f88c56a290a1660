/* What can be written, opened or made in the file system that is not the sandbox's own. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Opens, and writes what changes nothing. */
static void
must_not_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd == -1)
		return;
	broken("%s can be opened for writing", path);
	close(fd);
}

static void
must_not_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char byte[16];

	if (fd == -1)
		return;
	if (read(fd, byte, sizeof(byte)) > 0)
		broken("%s can be read", path);
	close(fd);
}

static void
none_written(const char *const *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		must_not_write(paths[i]);
}

/* The flags of the mount that holds this place, as /proc/mounts tells them. */
static int
mounted_read_only(const char *place)
{
	char *text = calloc(1, 1 << 18), *line, *rest = text, at[1024], options[1024];
	int found = -1;

	if (text != NULL && read_text("/proc/mounts", text, 1 << 18) > 0)
		while ((line = strsep(&rest, "\n")) != NULL)
			if (sscanf(line, "%*s %1023s %*s %1023s", at, options) == 2 &&
			    strcmp(at, place) == 0)
				found = strncmp(options, "ro", 2) == 0;
	free(text);
	return found;
}

void
check_root_read_only(void)
{
	static const char *const places[] = {"/", "/etc", "/usr", "/usr/bin", "/bin", "/lib",
	    "/var", "/var/tmp", "/root", "/home", "/opt", "/srv", "/mnt", "/run", "/sbin",
	    "/.agent-sandbox", "/dev", "/proc", "/sys"};
	char path[64];
	int fd;

	for (size_t i = 0; i < COUNT(places); i++) {
		snprintf(path, sizeof(path), "%s/selftest-file", places[i]);
		if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) == -1)
			continue;
		broken("%s was made", path);
		close(fd);
		unlink(path);
	}
	if (mounted_read_only("/") != 1)
		broken("/ is not mounted read-only");
	must_not_write("/.agent-sandbox/init");
	refused("the init renamed", rename("/.agent-sandbox/init", "/workspace/init"));
	refused("the init removed", unlink("/.agent-sandbox/init"));
	holds("/ is mounted read-only; %zu places tried", COUNT(places));
}

void
check_etc_files(void)
{
	static const char *const files[] = {"/etc/hosts", "/etc/resolv.conf", "/etc/hostname",
	    "/etc/passwd", "/etc/shadow", "/etc/group", "/etc/ld.so.preload", "/etc/nsswitch.conf",
	    "/etc/profile", "/etc/ssl/certs/ca-certificates.crt"};

	none_written(files, COUNT(files));
	refused("/etc/hosts removed", unlink("/etc/hosts"));
	refused("/etc/hosts.new", open("/etc/hosts.new", O_WRONLY | O_CREAT, 0600));
	holds("%zu files of /etc: none can be written", COUNT(files));
}

void
check_proc_sys(void)
{
	static const char *const files[] = {"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern",
	    "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
	    "/proc/sys/kernel/panic", "/proc/sys/kernel/yama/ptrace_scope",
	    "/proc/sys/kernel/unprivileged_bpf_disabled", "/proc/sys/kernel/ns_last_pid",
	    "/proc/sys/kernel/shmmax", "/proc/sys/kernel/msgmni", "/proc/sys/vm/overcommit_memory",
	    "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register",
	    "/proc/sys/fs/protected_symlinks", "/proc/sys/net/ipv4/ip_forward",
	    "/proc/sys/net/ipv4/ip_unprivileged_port_start",
	    "/proc/sys/net/ipv4/conf/all/route_localnet", "/proc/sys/user/max_user_namespaces",
	    "/proc/irq/default_smp_affinity", "/proc/bus/pci/00/00.0", "/proc/mtrr",
	    "/proc/scsi/scsi", "/proc/acpi/wakeup"};

	none_written(files, COUNT(files));
	if (mounted_read_only("/proc/sys") == 0)
		broken("/proc/sys is mounted for writing");
	holds("%zu files: none can be opened for writing", COUNT(files));
}

void
check_proc_secrets(void)
{
	static const char *const files[] = {"/proc/kcore", "/proc/kmsg", "/proc/keys",
	    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/latency_stats",
	    "/proc/kpagecount", "/proc/kpageflags", "/proc/vmallocinfo", "/proc/slabinfo",
	    "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/sys/firmware/dmi/tables/DMI",
	    "/sys/kernel/debug/sched/debug", "/sys/kernel/tracing/trace",
	    "/sys/kernel/security/lsm", "/sys/kernel/vmcoreinfo_x", "/boot/System.map",
	    "/etc/shadow"};

	for (size_t i = 0; i < COUNT(files); i++)
		must_not_read(files[i]);
	holds("%zu files: none can be read", COUNT(files));
}

/* A few hundred files of /sys, without following its links. */
static int
walk_sys(const char *dir, int depth, int left)
{
	DIR *d = opendir(dir);
	char path[1024];
	struct dirent *e;

	while (d != NULL && left > 0 && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%.700s/%.250s", dir, e->d_name);
		if (e->d_type == DT_DIR && depth > 0)
			left = walk_sys(path, depth - 1, left);
		else if (e->d_type == DT_REG) {
			must_not_write(path);
			left--;
		}
	}
	if (d != NULL)
		closedir(d);
	return left;
}

void
check_sys(void)
{
	static const char *const files[] = {"/sys/power/state", "/sys/kernel/uevent_helper",
	    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/module/kernel/parameters/panic",
	    "/sys/kernel/profiling", "/sys/kernel/mm/ksm/run"};
	int left = 2000;

	none_written(files, COUNT(files));
	left = walk_sys("/sys", 5, left);
	if (mounted_read_only("/sys") == 0)
		broken("/sys is mounted for writing");
	holds("%d files: none can be opened for writing", 2000 - left + (int)COUNT(files));
}

void
check_cgroups(void)
{
	static const char *const names[] = {"cgroup.procs", "tasks", "release_agent",
	    "notify_on_release", "memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max",
	    "cpu.cfs_quota_us", "cgroup.subtree_control", "cgroup.kill", "cgroup.freeze",
	    "devices.allow"};
	char path[600];
	struct dirent *e;
	DIR *d = opendir("/sys/fs/cgroup");

	while (d != NULL && (e = readdir(d)) != NULL)
		for (size_t i = 0; i < COUNT(names); i++) {
			snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/%s", e->d_name, names[i]);
			must_not_write(path);
		}
	refused("a new group", mkdir("/sys/fs/cgroup/selftest", 0700));
	refused("a new group of memory", mkdir("/sys/fs/cgroup/memory/selftest", 0700));
	holds("%zu kinds of files in every group: none can be written", COUNT(names));
}

void
check_devices(void)
{
	static const char *const known[] = {"null", "zero", "full", "random", "urandom", "tty",
	    "ptmx", "pts", "shm", "mqueue", "fd", "stdin", "stdout", "stderr", "core", "console"};
	DIR *d = opendir("/dev");
	struct dirent *e;
	size_t i;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		for (i = 0; i < COUNT(known); i++)
			if (strcmp(e->d_name, known[i]) == 0)
				break;
		if (i == COUNT(known))
			broken("/dev/%s", e->d_name);
	}
	if (d != NULL)
		closedir(d);
	holds("%d entries, all of them harmless", n);
}

void
check_mknod(void)
{
	static const struct {
		mode_t kind;
		unsigned major, minor;
	} devices[] = {{S_IFCHR, 1, 1}, {S_IFCHR, 1, 11}, {S_IFBLK, 8, 0}, {S_IFBLK, 252, 0},
	    {S_IFCHR, 10, 229}, {S_IFCHR, 10, 200}, {S_IFCHR, 10, 232}};
	static const char *const places[] = {"/tmp", "/workspace", "/dev/shm", "/dev"};
	char path[64];

	for (size_t i = 0; i < COUNT(devices); i++)
		for (size_t k = 0; k < COUNT(places); k++) {
			snprintf(path, sizeof(path), "%s/selftest-device", places[k]);
			if (mknod(path, devices[i].kind | 0666,
				makedev(devices[i].major, devices[i].minor)) == -1)
				continue;
			broken("%s %u:%u was made", path, devices[i].major, devices[i].minor);
			unlink(path);
		}
	holds("%zu devices at %zu places: refused", COUNT(devices), COUNT(places));
}

static int
connects(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), r;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	r = connect(s, (struct sockaddr *)&sun, sizeof(sun));
	close(s);
	return r == 0;
}

/* Every entry of the file system, but for what the kernel makes up. Returns how many. */
static long
walk_sockets(const char *dir, int depth)
{
	DIR *d = opendir(dir);
	char path[2048];
	struct dirent *e;
	long n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		snprintf(path, sizeof(path), "%.1700s/%.255s", strcmp(dir, "/") == 0 ? "" : dir,
		    e->d_name);
		if (strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0)
			continue;
		if (e->d_type == DT_DIR && depth > 0)
			n += walk_sockets(path, depth - 1);
		else if (e->d_type == DT_SOCK)
			broken("the socket %s", path);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

void
check_sockets(void)
{
	static const char *const known[] = {"/var/run/docker.sock", "/run/docker.sock",
	    "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/docker.sock",
	    "/run/systemd/private", "/run/dbus/system_bus_socket", "/dev/log"};

	for (size_t i = 0; i < COUNT(known); i++)
		if (access(known[i], F_OK) == 0 || connects(known[i]))
			broken("%s is there", known[i]);
	holds("%ld files looked at, no socket among them", walk_sockets("/", 30));
}

void
check_environment(void)
{
	static const char *const words[] = {"AGENT_SANDBOX_", "AGENTBOX_", "DOCKER_HOST",
	    "_as-manager", "LISTEN_FDS", "NOTIFY_SOCKET", "SSH_AUTH_SOCK"};
	char path[300], *text = malloc(1 << 20);
	DIR *d = opendir("/proc");
	struct dirent *e;
	ssize_t got;
	int n = 0;

	while (text != NULL && d != NULL && (e = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%s/environ", e->d_name);
		if (!isdigit((unsigned char)e->d_name[0]) ||
		    (got = read_text(path, text, 1 << 20)) <= 0)
			continue;
		n++;
		for (ssize_t i = 0; i < got; i++)
			if (text[i] == '\0')
				text[i] = '\n';
		for (size_t i = 0; i < COUNT(words); i++)
			if (strstr(text, words[i]) != NULL)
				broken("%s has %s", path, words[i]);
	}
	holds("%d environments can be read, with nothing of the server", n);
}
