/*
 * Turns rows of system calls into a seccomp filter. Order: a foreign architecture kills, x32 kills,
 * calls newer than the tables fail with ENOSYS (libraries then fall back), the rows, and last what
 * happens to all others.
 */
#include "common/confine_rules.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "common/log.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#define ARCH AUDIT_ARCH_AARCH64
#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "the system call tables were reviewed for x86_64 and little-endian aarch64 only"
#endif

#define X32_BIT 0x40000000

#define LOAD(field) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (field)))
#define AND(bits) ((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (bits)))
#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (action)))
#define JUMP(op, value, yes, no) \
	((struct sock_filter)BPF_JUMP(BPF_JMP | (op) | BPF_K, (value), (yes), (no)))

#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))

static void
emit(struct confine_filter *f, struct sock_filter instruction)
{
	if (f->n == CONFINE_FILTER_MAX)
		fatalx("confinement: filter too long");
	f->code[f->n++] = instruction;
}

void
confine_filter_begin(struct confine_filter *f, uint32_t otherwise)
{
	f->n = 0;
	f->otherwise = otherwise;
	emit(f, LOAD(FIELD(arch)));
	emit(f, JUMP(BPF_JEQ, ARCH, 1, 0));
	emit(f, RETURN(SECCOMP_RET_KILL_PROCESS));
	emit(f, LOAD(FIELD(nr)));
	emit(f, JUMP(BPF_JGE, X32_BIT, 0, 1));
	emit(f, RETURN(SECCOMP_RET_KILL_PROCESS));
	emit(f, JUMP(BPF_JGT, CONFINE_LAST_REVIEWED, 0, 1));
	emit(f, RETURN(SECCOMP_RET_ERRNO | ENOSYS));
}

/* Compares one half of an argument; a mismatch leaves the row (the jump is patched by add_rule). */
static void
emit_half(struct confine_filter *f, uint32_t field, uint32_t mask, uint16_t op, uint32_t value)
{
	emit(f, LOAD(field));
	if (mask != UINT32_MAX)
		emit(f, AND(mask));
	emit(f, JUMP(op, value, 0, 0));
}

static void
emit_test(struct confine_filter *f, const struct confine_test *t)
{
	uint64_t value = t->op == OP_SELF ? (uint64_t)getpid() : t->value;
	uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
	uint32_t at = FIELD(args) + 8 * t->arg; /* little-endian: the low word is first */

	switch (t->op) {
	case OP_EQ:
	case OP_SELF:
		emit_half(f, at, UINT32_MAX, BPF_JEQ, low);
		emit_half(f, at + 4, UINT32_MAX, BPF_JEQ, high);
		break;
	case OP_WITHIN:
		emit_half(f, at, ~low, BPF_JEQ, 0);
		emit_half(f, at + 4, ~high, BPF_JEQ, 0);
		break;
	case OP_EQ32:
		emit_half(f, at, UINT32_MAX, BPF_JEQ, low);
		break;
	case OP_SOME32:
		emit_half(f, at, UINT32_MAX, BPF_JSET, low);
		break;
	default:
		break;
	}
}

static void
add_rule(struct confine_filter *f, const struct confine_rule *r)
{
	size_t start = f->n, i;

	emit(f, JUMP(BPF_JEQ, (uint32_t)r->nr, 0, 0));
	for (i = 0; i < CONFINE_TESTS; i++)
		emit_test(f, &r->test[i]);
	emit(f, RETURN(r->error == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | r->error));
	/* Whatever does not match goes behind the row. There the number is loaded again, if a test
	 * has replaced it. */
	for (i = start; i < f->n; i++)
		if (BPF_CLASS(f->code[i].code) == BPF_JMP)
			f->code[i].jf = (uint8_t)(f->n - 1 - i);
	if (f->n - start > 2)
		emit(f, LOAD(FIELD(nr)));
}

void
confine_filter_add(struct confine_filter *f, const struct confine_group *g)
{
	size_t i;

	for (i = 0; i < g->nrules; i++)
		add_rule(f, &g->rules[i]);
}

void
confine_filter_end(struct confine_filter *f)
{
	emit(f, RETURN(f->otherwise));
}

static const struct confine_group *
find_group(const char *word, size_t len)
{
	const struct confine_group *g;

	for (g = confine_groups; g->name != NULL; g++)
		if (strlen(g->name) == len && memcmp(g->name, word, len) == 0)
			return g;
	fatalx("confinement: unknown promise \"%.*s\"", (int)len, word);
}

void
confine_filter_promises(struct confine_filter *f, const char *promises)
{
	const char *word;
	size_t len;

	confine_filter_begin(f, SECCOMP_RET_KILL_PROCESS);
	for (word = promises + strspn(promises, " "); *word != '\0'; word += strspn(word, " ")) {
		len = strcspn(word, " ");
		confine_filter_add(f, find_group(word, len));
		word += len;
	}
	confine_filter_add(f, &confine_group_always);
	confine_filter_end(f);
}

int
confine_filter_load(const struct confine_filter *f)
{
	struct sock_fprog program = {
	    .len = (unsigned short)f->n, .filter = (struct sock_filter *)f->code};

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : -1;
}
