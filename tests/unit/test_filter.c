// link: -lseccomp
/*
 * The system call filters, run by an interpreter: the order of the checks, what each promise adds,
 * and equality with what libseccomp makes of the same rows, for all calls and the arguments around
 * every value that a row tests.
 */
#include "tests/unit/forked.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#include "common/confine_rules.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define OTHER_ARCH AUDIT_ARCH_I386
#else
#define ARCH AUDIT_ARCH_AARCH64
#define OTHER_ARCH AUDIT_ARCH_ARM
#endif

#define KILL SECCOMP_RET_KILL_PROCESS
#define ALLOW SECCOMP_RET_ALLOW

static struct confine_filter filter;

static uint32_t
run(const struct sock_filter *code, size_t n, const struct seccomp_data *d)
{
	uint32_t a = 0;
	size_t pc;

	for (pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_in_range(i->k, 0, sizeof(*d) - 4);
			memcpy(&a, (const uint8_t *)d + i->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += (a & i->k) != 0 ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction 0x%x", i->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static uint32_t
decide(int nr, const uint64_t args[6])
{
	struct seccomp_data d = {.nr = nr, .arch = ARCH};

	if (args != NULL)
		memcpy(d.args, args, sizeof(d.args));
	return run(filter.code, filter.n, &d);
}

/* What a row's value is when it is run here. */
static uint64_t
value_of(const struct confine_test *t)
{
	return t->op == OP_SELF ? (uint64_t)getpid() : t->value;
}

static int
holds(const struct confine_test *t, const uint64_t args[6])
{
	uint64_t a = args[t->arg], v = value_of(t);

	switch (t->op) {
	case OP_EQ:
	case OP_SELF:
		return a == v;
	case OP_WITHIN:
		return (a & ~v) == 0;
	case OP_EQ32:
		return (uint32_t)a == (uint32_t)v;
	case OP_SOME32:
		return ((uint32_t)a & (uint32_t)v) != 0;
	default:
		return 1;
	}
}

/* Arguments around what a test looks at: the value, its neighbours, other high words, single bits.
 */
static size_t
interesting(const struct confine_test *t, uint64_t out[16])
{
	uint64_t v = value_of(t);
	const uint64_t all[] = {v, v + 1, v - 1, 0, 1, ~v, UINT64_MAX, v | UINT64_C(1) << 32,
	    v | UINT64_C(1) << 63, v << 32, v & -v, v | 4, v | 8, (uint32_t)~v, 0xffffffff00000000};

	memcpy(out, all, sizeof(all));
	return sizeof(all) / sizeof(all[0]);
}

typedef void (*on_point)(int nr, const uint64_t args[6], void *arg);

/* Calls fn for all combinations of interesting arguments of one row. */
static void
each_point(const struct confine_rule *r, on_point fn, void *arg)
{
	uint64_t value[CONFINE_TESTS][16], args[6];
	size_t n[CONFINE_TESTS], i, at, all = 1, t;

	for (t = 0; t < CONFINE_TESTS; t++) {
		n[t] = r->test[t].op == OP_NONE && t > 0 ? 1 : interesting(&r->test[t], value[t]);
		all *= n[t];
	}
	for (i = 0; i < all; i++) {
		memset(args, 0, sizeof(args));
		for (t = 0, at = i; t < CONFINE_TESTS; at /= n[t++])
			if (r->test[t].op != OP_NONE || t == 0)
				args[r->test[t].arg] = value[t][at % n[t]];
		fn(r->nr, args, arg);
	}
}

static int
row_holds(const struct confine_rule *r, const uint64_t args[6])
{
	size_t t;

	for (t = 0; t < CONFINE_TESTS; t++)
		if (!holds(&r->test[t], args))
			return 0;
	return 1;
}

static uint32_t
result_of(const struct confine_rule *r)
{
	return r->error == 0 ? ALLOW : SECCOMP_RET_ERRNO | r->error;
}

/* The first row of these groups that matches, as the tables read. */
static uint32_t
by_reading(const struct confine_group *const *groups, size_t n, int nr, const uint64_t args[6],
    uint32_t otherwise)
{
	size_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < groups[i]->nrules; k++) {
			const struct confine_rule *r = &groups[i]->rules[k];

			if (r->nr == nr && row_holds(r, args))
				return result_of(r);
		}
	return otherwise;
}

struct reading {
	const struct confine_group *groups[32];
	size_t n;
	uint32_t otherwise;
};

static void
must_be_as_read(int nr, const uint64_t args[6], void *arg)
{
	const struct reading *r = arg;

	assert_int_equal(decide(nr, args), by_reading(r->groups, r->n, nr, args, r->otherwise));
}

static void
check_reading(const struct reading *r)
{
	size_t i, k;
	int nr;

	for (i = 0; i < r->n; i++)
		for (k = 0; k < r->groups[i]->nrules; k++)
			each_point(&r->groups[i]->rules[k], must_be_as_read, (void *)r);
	for (nr = 0; nr <= CONFINE_LAST_REVIEWED; nr++)
		must_be_as_read(nr, (const uint64_t[6]){0}, (void *)r);
}

static void
a_filter_does_what_its_rows_say(void **state)
{
	const struct confine_group *g;
	char promises[64];

	(void)state;
	for (g = confine_groups; g->name != NULL; g++) {
		struct reading r = {{&confine_groups[0], g, &confine_group_always}, 3, KILL};

		snprintf(promises, sizeof(promises), " stdio   %s ", g->name);
		confine_filter_promises(&filter, promises);
		check_reading(&r);
	}
}

static void
the_parents_filter_does_what_its_rows_say(void **state)
{
	struct reading r = {{&confine_group_parent_root, &confine_group_parent}, 2, ALLOW};

	(void)state;
	confine_filter_begin(&filter, ALLOW);
	confine_filter_add(&filter, &confine_group_parent_root);
	confine_filter_add(&filter, &confine_group_parent);
	confine_filter_end(&filter);
	check_reading(&r);
}

static void
another_architecture_and_x32_kill(void **state)
{
	struct seccomp_data d = {.nr = __NR_read, .arch = OTHER_ARCH};

	(void)state;
	confine_filter_promises(&filter, "stdio");
	assert_int_equal(run(filter.code, filter.n, &d), KILL);
	assert_int_equal(decide(__NR_read | 0x40000000, NULL), KILL);
	assert_int_equal(decide(-1, NULL), KILL);
	assert_int_equal(decide(INT32_MAX, NULL), KILL);
}

static void
calls_newer_than_the_tables_do_not_exist(void **state)
{
	(void)state;
	confine_filter_promises(&filter, "stdio");
	assert_int_equal(decide(CONFINE_LAST_REVIEWED + 1, NULL), SECCOMP_RET_ERRNO | ENOSYS);
	assert_int_equal(decide(0x3fffffff, NULL), SECCOMP_RET_ERRNO | ENOSYS);
	assert_int_equal(decide(CONFINE_LAST_REVIEWED, NULL), KILL);
}

static void
no_promise_gives_what_none_may_have(void **state)
{
	static const int never[] = {__NR_execve, __NR_execveat, __NR_clone, __NR_ptrace, __NR_kill,
	    __NR_tkill, __NR_rt_sigqueueinfo, __NR_pidfd_send_signal, __NR_pidfd_getfd,
	    __NR_process_vm_readv, __NR_process_vm_writev, __NR_bind, __NR_listen, __NR_mount,
	    __NR_umount2, __NR_pivot_root, __NR_chroot, __NR_unshare, __NR_setns, __NR_setuid,
	    __NR_setgid, __NR_setresuid, __NR_setgroups, __NR_capset, __NR_prctl, __NR_seccomp,
	    __NR_bpf, __NR_io_uring_setup, __NR_io_uring_enter, __NR_userfaultfd,
	    __NR_perf_event_open, __NR_keyctl, __NR_add_key, __NR_memfd_create, __NR_shmget,
	    __NR_mknodat, __NR_linkat, __NR_symlinkat, __NR_fchownat, __NR_fchown, __NR_openat2,
	    __NR_open_by_handle_at, __NR_pkey_mprotect, __NR_personality, __NR_setrlimit,
	    __NR_init_module, __NR_setxattr, __NR_chdir, __NR_fchdir, __NR_kcmp};
	static const uint64_t exec[6] = {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE};
	static const uint64_t inet[6] = {2, 1, 0};
	char all[512] = "";
	const struct confine_group *g;
	size_t i;

	(void)state;
#ifdef CONFINE_SANITIZED
	skip();
#endif
	for (g = confine_groups; g->name != NULL; g++) {
		strcat(all, g->name);
		strcat(all, " ");
	}
	confine_filter_promises(&filter, all);
	for (i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (decide(never[i], NULL) != KILL)
			fail_msg("call %d is not killed", never[i]);
	assert_int_equal(decide(__NR_mmap, exec), KILL);
	assert_int_equal(decide(__NR_mprotect, exec), KILL);
	/* inet refuses it instead: see there. */
	assert_int_equal(decide(__NR_socket, inet), SECCOMP_RET_ERRNO | EACCES);
	assert_int_equal(decide(__NR_socketpair, inet), KILL);
}

static void
adds_an_unknown_promise(void *arg)
{
	confine_filter_promises(&filter, arg);
}

static void
an_unknown_promise_is_fatal(void **state)
{
	(void)state;
	assert_fatal(adds_an_unknown_promise, "stdio exec", "unknown promise \"exec\"");
	assert_fatal(adds_an_unknown_promise, "stdi", "unknown promise \"stdi\"");
	assert_fatal(adds_an_unknown_promise, "stdio,event", "unknown promise \"stdio,event\"");
}

static void
every_group_and_row_is_said_once_with_its_reason(void **state)
{
	const struct confine_group *g, *h;
	size_t i, k;

	(void)state;
	for (g = confine_groups; g->name != NULL; g++) {
		assert_true(strlen(g->why) > 10);
		assert_null(strchr(g->name, ' '));
		for (h = confine_groups; h < g; h++)
			assert_string_not_equal(g->name, h->name);
		for (i = 0; i < g->nrules; i++)
			for (k = 0; k < i; k++)
				assert_memory_not_equal(
				    &g->rules[i], &g->rules[k], sizeof(g->rules[i]));
	}
}

/* One test of a row in libseccomp's words. */
static struct scmp_arg_cmp
compare(const struct confine_test *t)
{
	uint64_t v = value_of(t);

	switch (t->op) {
	case OP_WITHIN:
		return SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, ~v, 0);
	case OP_EQ32:
		return SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, 0xffffffff, v);
	case OP_SOME32: /* one bit, in all rows */
		assert_int_equal(v & (v - 1), 0);
		return SCMP_CMP64(t->arg, SCMP_CMP_MASKED_EQ, v, v);
	default:
		return SCMP_CMP64(t->arg, SCMP_CMP_EQ, v, 0);
	}
}

static void
add_to_oracle(scmp_filter_ctx ctx, const struct confine_group *g)
{
	struct scmp_arg_cmp tests[CONFINE_TESTS];
	size_t i, n;
	int r;

	for (i = 0; i < g->nrules; i++) {
		const struct confine_rule *row = &g->rules[i];

		for (n = 0; n < CONFINE_TESTS && row->test[n].op != OP_NONE; n++)
			tests[n] = compare(&row->test[n]);
		r = seccomp_rule_add_array(ctx,
		    row->error == 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(row->error), row->nr,
		    (unsigned)n, tests);
		if (r != 0 && r != -EEXIST)
			fail_msg("libseccomp: row %zu of %s (call %d): %s", i, g->name, row->nr,
			    strerror(-r));
	}
}

struct oracle {
	struct sock_filter *code;
	size_t n, points;
};

static void export(scmp_filter_ctx ctx, struct oracle *o)
{
	FILE *f = tmpfile();
	long size;

	assert_non_null(f);
	assert_int_equal(seccomp_export_bpf(ctx, fileno(f)), 0);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	size = ftell(f);
	rewind(f);
	o->code = malloc((size_t)size);
	o->n = (size_t)size / sizeof(o->code[0]);
	assert_int_equal(fread(o->code, sizeof(o->code[0]), o->n, f), o->n);
	fclose(f);
}

static void
must_agree(int nr, const uint64_t args[6], void *arg)
{
	struct oracle *o = arg;
	struct seccomp_data d = {.nr = nr, .arch = ARCH};
	uint32_t theirs, ours = decide(nr, args);

	memcpy(d.args, args, sizeof(d.args));
	theirs = run(o->code, o->n, &d);
	o->points++;
	if (ours != theirs)
		fail_msg("call %d (0x%llx, 0x%llx, 0x%llx): ours 0x%x, libseccomp's 0x%x", nr,
		    (unsigned long long)args[0], (unsigned long long)args[1],
		    (unsigned long long)args[2], ours, theirs);
}

/* Every call with every value in every argument, and the neighbourhood of every row, also of groups
 * not promised. */
static void
compare_everywhere(struct oracle *o)
{
	static const uint64_t values[] = {
	    0, 1, 2, 3, 4, 5, 7, 0x1000, UINT64_C(1) << 32, UINT64_C(0x100000004), UINT64_MAX};
	const struct confine_group *g;
	uint64_t args[6];
	size_t i, k, a;
	int nr;

	for (nr = 0; nr <= CONFINE_LAST_REVIEWED; nr++)
		for (a = 0; a < 6; a++)
			for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
				memset(args, 0, sizeof(args));
				args[a] = values[i];
				must_agree(nr, args, o);
			}
	for (g = confine_groups; g->name != NULL; g++)
		for (k = 0; k < g->nrules; k++)
			each_point(&g->rules[k], must_agree, o);
}

static void
libseccomp_makes_the_same_of_the_same_rows(void **state)
{
	static const char *const sets[] = {"stdio", "stdio event recvfd sendfd",
	    "stdio event recvfd sendfd socketpair stream inet", "stdio event recvfd sendfd stream",
	    "stdio event recvfd sendfd connect", "stdio event recvfd sendfd unix stream",
	    "stdio event recvfd sendfd rpath wpath cpath",
	    "stdio event recvfd sendfd socketpair stream inet unix rpath wpath cpath"};
	const struct confine_group *g;
	struct oracle o = {0};
	scmp_filter_ctx ctx;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
		for (g = confine_groups; g->name != NULL; g++) {
			char padded[256], word[32];

			snprintf(padded, sizeof(padded), " %s ", sets[i]);
			snprintf(word, sizeof(word), " %s ", g->name);
			if (strstr(padded, word) != NULL)
				add_to_oracle(ctx, g);
		}
		add_to_oracle(ctx, &confine_group_always);
		export(ctx, &o);
		seccomp_release(ctx);
		confine_filter_promises(&filter, sets[i]);
		compare_everywhere(&o);
		free(o.code);
	}
	assert_true(o.points > 200000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_filter_does_what_its_rows_say),
	    cmocka_unit_test(the_parents_filter_does_what_its_rows_say),
	    cmocka_unit_test(another_architecture_and_x32_kill),
	    cmocka_unit_test(calls_newer_than_the_tables_do_not_exist),
	    cmocka_unit_test(no_promise_gives_what_none_may_have),
	    cmocka_unit_test(an_unknown_promise_is_fatal),
	    cmocka_unit_test(every_group_and_row_is_said_once_with_its_reason),
	    cmocka_unit_test(libseccomp_makes_the_same_of_the_same_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
