/*
 * What the self-test tries, as a table: the program inside a sandbox runs the rows of its mode, and
 * the command outside knows from it what must have been said.
 */
#ifndef SELFTEST_CHECKS_H
#define SELFTEST_CHECKS_H

/* How the sandbox was made. */
enum {
	MODE_NONE = 1,   /* as most are: without a way out */
	MODE_LIST = 2,   /* an egress allowlist */
	MODE_PROXY = 4,  /* "network": true, which leads through egressd */
	MODE_BRIDGE = 8, /* "network": true, a bridge */
};
#define MODE_ALL (MODE_NONE | MODE_LIST | MODE_PROXY | MODE_BRIDGE)
#define MODE_CUT (MODE_NONE | MODE_LIST | MODE_PROXY) /* no interface but lo */
#define MODE_OUT (MODE_LIST | MODE_PROXY)             /* out through egressd only */

/* Rows: name, modes, what must hold. */
#define CHECKS(X)                                                                                \
	/* network.c */                                                                          \
	X(interfaces, MODE_ALL, "lo is the only interface; on a bridge there is one more")       \
	X(routes, MODE_CUT, "no route leads anywhere")                                           \
	X(tcp, MODE_CUT, "no TCP connection to a public address, of IPv4 or IPv6")               \
	X(udp, MODE_CUT, "no datagram and no ping to a public address")                          \
	X(dns, MODE_CUT, "no name server answers")                                               \
	X(metadata, MODE_ALL, "metadata addresses of clouds do not answer")                      \
	X(host, MODE_ALL, "the host, its gateways and what is near it do not answer")            \
	X(private_networks, MODE_ALL, "private networks do not answer")                          \
	X(neighbours, MODE_BRIDGE, "another sandbox on the same bridge does not answer")         \
	X(raw_sockets, MODE_ALL, "no raw and no packet sockets")                                 \
	X(socket_families, MODE_ALL, "no sockets but unix, IPv4, IPv6 and netlink's routes")     \
	X(netlink, MODE_ALL, "no interface, address or route can be made")                       \
	X(abstract_sockets, MODE_ALL, "no abstract unix socket of others")                       \
	X(listeners, MODE_ALL, "nothing listens here but the sandbox's own ways out")            \
	/* proxy.c, names.c, first_bytes.c */                                                    \
	X(proxy_ranges4, MODE_OUT, "IPv4 addresses that are not public are refused as such")     \
	X(proxy_ranges6, MODE_OUT, "IPv6 addresses that are not public are refused as such")     \
	X(proxy_mapped, MODE_OUT, "IPv4 in IPv6 is IPv4")                                        \
	X(proxy_own, MODE_OUT, "the server's own addresses are refused")                         \
	X(proxy_absolute, MODE_OUT, "requests with a whole URL are refused likewise")            \
	X(proxy_socks, MODE_OUT, "SOCKS5 refuses what CONNECT refuses")                          \
	X(socks_commands, MODE_OUT, "SOCKS5 neither listens nor takes datagrams")                \
	X(proxy_spellings, MODE_OUT, "odd spellings of addresses are no names")                  \
	X(proxy_names, MODE_OUT, "NUL, blanks, other alphabets and over-long names are none")    \
	X(proxy_socks_names, MODE_OUT, "SOCKS5 refuses them too")                                \
	X(proxy_unlisted, MODE_LIST, "what the list does not name is refused, however like it")  \
	X(proxy_ports, MODE_LIST, "other ports than those listed are refused")                   \
	X(proxy_rebinding, MODE_OUT, "a name whose answer is not public, or becomes it")         \
	X(proxy_reaches, MODE_OUT, "what is listed is reached, so that refusals mean something") \
	X(proxy_host, MODE_LIST, "a Host header must be the name that was dialled")              \
	X(proxy_sni, MODE_LIST, "a TLS server name must be the name that was dialled")           \
	X(proxy_redirect, MODE_OUT, "a second request on a connection goes nowhere else")        \
	X(direct, MODE_LIST, "a listed name's loopback address is checked likewise")             \
	/* kernel.c */                                                                           \
	X(capabilities, MODE_ALL, "all capability sets are empty, of PID 1 too")                 \
	X(no_new_privileges, MODE_ALL, "no_new_privs is set, of PID 1 too")                      \
	X(seccomp, MODE_ALL, "a system call filter is on, of PID 1 too")                         \
	X(set_user_id, MODE_ALL, "set-user-id programs give nothing")                            \
	X(users, MODE_ALL, "no other user or group can be taken")                                \
	X(user_namespaces, MODE_ALL, "no namespace can be made")                                 \
	X(setns, MODE_ALL, "no namespace can be entered")                                        \
	X(ptrace, MODE_ALL, "PID 1 cannot be traced or read")                                    \
	X(mounts, MODE_ALL, "nothing can be mounted or unmounted, by the old calls")             \
	X(mounts_new, MODE_ALL, "nothing can be mounted by the new calls")                       \
	X(chroot, MODE_ALL, "the root cannot be changed")                                        \
	X(keyrings, MODE_ALL, "no keyrings")                                                     \
	X(io_uring, MODE_ALL, "no io_uring")                                                     \
	X(bpf, MODE_ALL, "no BPF")                                                               \
	X(perf, MODE_ALL, "no performance counters")                                             \
	X(userfaultfd, MODE_ALL, "no userfaultfd")                                               \
	X(file_handles, MODE_ALL, "no files by handle")                                          \
	X(modules, MODE_ALL, "no kernel modules, no other kernel")                               \
	X(reboot, MODE_ALL, "no reboot, swap, accounting or kernel log")                         \
	X(clocks, MODE_ALL, "no clock can be set or turned")                                     \
	X(names_of_host, MODE_ALL, "the host's name and domain cannot be set")                   \
	X(other_calls, MODE_ALL, "calls that nobody needs are refused")                          \
	X(call_arguments, MODE_ALL, "calls are refused by their arguments")                      \
	X(other_entries, MODE_ALL, "no way into the kernel around the filter")                   \
	/* files.c */                                                                            \
	X(root_read_only, MODE_ALL, "the root file system cannot be written")                    \
	X(etc_files, MODE_ALL, "hosts, resolv.conf and hostname cannot be written")              \
	X(proc_sys, MODE_ALL, "kernel settings cannot be written")                               \
	X(proc_secrets, MODE_ALL, "the kernel's memory, keys and log cannot be read")            \
	X(sys, MODE_ALL, "nothing of /sys can be written")                                       \
	X(cgroups, MODE_ALL, "the sandbox's own limits cannot be written")                       \
	X(devices, MODE_ALL, "/dev has the harmless ones only")                                  \
	X(mknod, MODE_ALL, "no device can be made")                                              \
	X(sockets, MODE_ALL, "no engine's or other's socket in the file system")                 \
	X(environment, MODE_ALL, "nothing of the server in any environment")                     \
	/* limits.c */                                                                           \
	X(processes, MODE_ALL, "processes of others are not seen; PID 1 is the sandbox's init")  \
	X(pid1_files, MODE_ALL, "PID 1's memory, environment, files and knobs are shut")         \
	X(pid1_signals, MODE_ALL, "no signal ends or stops PID 1")                               \
	X(pid1_limits, MODE_ALL, "limits and scheduling of PID 1 cannot be set")                 \
	X(memory_limit, MODE_ALL, "memory is limited")                                           \
	X(pids_limit, MODE_ALL, "processes are limited")                                         \
	X(processor_limit, MODE_ALL, "processor time is limited")                                \
	X(own_limits, MODE_ALL, "no core files, and a limit of open files")

#endif
