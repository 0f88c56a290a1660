/* Puts a file into the program: "name" is its bytes, with a NUL behind them, and "name"_size how
 * many they are. The object must depend on the file. */
#ifndef COMMON_EMBED_H
#define COMMON_EMBED_H

#include <stdint.h>

#define EMBED(name, path)                                                                         \
	__asm__(".section .rodata\n.global " #name ", " #name "_size\n" #name ": .incbin \"" path \
		"\"\n1: .byte 0\n.balign 8\n" #name "_size: .quad 1b - " #name "\n.previous\n");  \
	extern const char name[];                                                                 \
	extern const uint64_t name##_size

#endif
