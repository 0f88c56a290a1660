/*
 * The first instructions of a program in the tarball, which brings its own libraries, libc among
 * them. A program names the loader of shared libraries by an absolute path, which another libc may
 * not have; these name none. The kernel starts them here: the loader is looked for in ../lib or
 * ../../lib, as seen from the program, mapped, and started as the kernel would have done it.
 *
 * Nothing is relocated yet: no libc, no pointers in data, no stack protector.
 */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096UL
#define DOWN(x) ((x) & ~(PAGE - 1))
#define UP(x) DOWN((x) + PAGE - 1)
#define HEAD 1024 /* of the loader: its header and program headers */
#define PATH 4096

extern char _start[]; /* the program's own */

/* Called by the kernel with the stack of a new program; jumps to the loader with the same. */
__asm__(".globl tarball_start\n"
	"tarball_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call tarball_load\n"
	"	mov %rbx, %rsp\n"
	"	xor %edx, %edx\n"
	"	jmp *%rax\n");
uintptr_t tarball_load(uintptr_t *stack);

static long
call(long nr, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f)
{
	register uintptr_t r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static void __attribute__((noreturn)) die(void)
{
	static const char text[] =
	    "agent-sandbox: lib/ld-linux-x86-64.so.2 is missing beside bin/\n";

	call(SYS_write, 2, (uintptr_t)text, sizeof(text) - 1, 0, 0, 0);
	for (;;)
		call(SYS_exit_group, 127, 0, 0, 0, 0, 0);
}

/* path: this program's own; replaces what is behind its last n slashes by name. */
static int
open_beside(char *path, size_t len, int n, const char *name)
{
	while (n > 0 && len > 0)
		if (path[--len] == '/')
			n--;
	for (size_t i = 0; len + i < PATH; i++)
		if ((path[len + i] = name[i]) == '\0')
			return (int)call(
			    SYS_open, (uintptr_t)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
	return -1;
}

static int
open_loader(void)
{
	char path[PATH];
	long n =
	    call(SYS_readlink, (uintptr_t) "/proc/self/exe", (uintptr_t)path, PATH - 64, 0, 0, 0);
	int fd;

	if (n <= 0)
		die();
	/* bin/NAME, libexec/agent-sandbox/NAME */
	if ((fd = open_beside(path, n, 2, "/lib/ld-linux-x86-64.so.2")) < 0 &&
	    (call(SYS_readlink, (uintptr_t) "/proc/self/exe", (uintptr_t)path, PATH - 64, 0, 0,
		 0) != n ||
		(fd = open_beside(path, n, 3, "/lib/ld-linux-x86-64.so.2")) < 0))
		die();
	return fd;
}

static uintptr_t
map(uintptr_t at, size_t len, int prot, int flags, int fd, uint64_t offset)
{
	long got = call(SYS_mmap, at, len, prot, flags, fd, offset);

	if (got < 0 && got > -4096)
		die();
	return (uintptr_t)got;
}

/* One segment, and the zeros behind what the file has of it. */
static void
map_segment(int fd, uintptr_t base, const Elf64_Phdr *ph)
{
	int prot = (ph->p_flags & PF_R ? PROT_READ : 0) | (ph->p_flags & PF_W ? PROT_WRITE : 0) |
		   (ph->p_flags & PF_X ? PROT_EXEC : 0);
	uintptr_t start = base + DOWN(ph->p_vaddr), file_end = base + ph->p_vaddr + ph->p_filesz;
	uintptr_t end = base + ph->p_vaddr + ph->p_memsz;

	map(start, UP(file_end) - start, prot, MAP_PRIVATE | MAP_FIXED, fd, DOWN(ph->p_offset));
	if (end <= file_end)
		return;
	for (volatile char *p = (char *)file_end; (uintptr_t)p < UP(file_end); p++)
		*p = 0;
	if (end > UP(file_end))
		map(UP(file_end), end - UP(file_end), prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		    -1, 0);
}

/* The loader's base; *entry is where it begins. */
static uintptr_t
map_loader(uintptr_t *entry)
{
	_Alignas(8) char head[HEAD];
	const Elf64_Ehdr *eh = (const void *)head;
	const Elf64_Phdr *ph = (const void *)(head + sizeof(*eh));
	int fd = open_loader();
	uintptr_t base, span = 0;

	if (call(SYS_read, fd, (uintptr_t)head, HEAD, 0, 0, 0) != HEAD ||
	    eh->e_phoff != sizeof(*eh) || sizeof(*eh) + eh->e_phnum * sizeof(*ph) > HEAD)
		die();
	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD)
			span = UP(ph[i].p_vaddr + ph[i].p_memsz);
	base = map(0, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD)
			map_segment(fd, base, &ph[i]);
	call(SYS_close, fd, 0, 0, 0, 0, 0);
	*entry = base + eh->e_entry;
	return base;
}

/*
 * The loader asserts that somebody has asked for it: the program header with its name, hidden from
 * the kernel, is shown again.
 */
static void
show_request(Elf64_Phdr *ph, size_t n)
{
	uintptr_t page = DOWN((uintptr_t)ph), len = UP((uintptr_t)(ph + n)) - page;

	if (call(SYS_mprotect, page, len, PROT_READ | PROT_WRITE, 0, 0, 0) != 0)
		die();
	for (size_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_NULL)
			ph[i].p_type = PT_INTERP;
	call(SYS_mprotect, page, len, PROT_READ, 0, 0, 0);
}

/* The stack: argc, arguments, 0, environment, 0, and what the kernel tells the loader. */
uintptr_t
tarball_load(uintptr_t *stack)
{
	uintptr_t *p = stack + 1 + *stack + 1, entry, base = map_loader(&entry);
	Elf64_Phdr *ph = NULL;
	size_t n = 0;

	while (*p != 0)
		p++;
	for (Elf64_auxv_t *aux = (void *)(p + 1); aux->a_type != AT_NULL; aux++) {
		if (aux->a_type == AT_BASE)
			aux->a_un.a_val = base;
		else if (aux->a_type == AT_ENTRY)
			aux->a_un.a_val = (uintptr_t)_start;
		else if (aux->a_type == AT_PHDR)
			ph = (void *)aux->a_un.a_val;
		else if (aux->a_type == AT_PHNUM)
			n = aux->a_un.a_val;
	}
	show_request(ph, n);
	return entry;
}
