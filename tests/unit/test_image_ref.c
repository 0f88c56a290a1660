/* Names of images: which are references at all, which the operator's globs cover, which registries
 * are too near. */
// link: common/image_ref.o
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/image_ref.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int
parse(const char *text, struct image_ref *ref)
{
	return image_parse(text, strlen(text), ref);
}

static void
references_are_taken_apart(void **state)
{
	static const struct {
		const char *text, *name, *tag, *host;
	} good[] = {
	    {"python", "python", "latest", ""},
	    {"python:3.12-slim", "python", "3.12-slim", ""},
	    {"no/such:image", "no/such", "image", ""},
	    {"a/b/c", "a/b/c", "latest", ""},
	    {"a_b__c-d--e.f", "a_b__c-d--e.f", "latest", ""},
	    {"localhost/x", "localhost/x", "latest", "localhost"},
	    {"localhost:5000/x:1", "localhost:5000/x", "1", "localhost:5000"},
	    {"reg.example.com/x/y:A_b.c-9", "reg.example.com/x/y", "A_b.c-9", "reg.example.com"},
	    {"HOST/x", "HOST/x", "latest", "HOST"},
	    {"x@sha256:" HEX64, "x", "sha256:" HEX64, ""},
	    {"x:1@sha256:" HEX64, "x", "sha256:" HEX64, ""},
	    {"a.b:1/x", "a.b:1/x", "latest", "a.b:1"},
	    {"a.b:65535/x", "a.b:65535/x", "latest", "a.b:65535"},
	};
	struct image_ref ref;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse(good[i].text, &ref), 0);
		assert_string_equal(ref.name, good[i].name);
		assert_string_equal(ref.tag, good[i].tag);
		assert_string_equal(ref.host, good[i].host);
	}
}

static void
what_is_no_reference_is_refused(void **state)
{
	static const char *const bad[] = {"", " ", "a:b:c", "../x", "x/../y", "x/./y", "PYTHON",
	    "a/B", "x y", "-v", "x-", "-x/y", ".x", "x.", "x..y", "x___y", "/x", "x/", "x//y",
	    "x:", "x:-a", "x:.a", "x:a b", "x:a/b", "@", "x@", "x@sha256:bad", "x@sha512:" HEX64,
	    "x@sha256:" HEX64 "0", "x@SHA256:" HEX64, "h:1:2/x", "h:/x", "h:123456/x", "-h.x/y",
	    "h-.x/y", "a..b/x", "[::1]/x", "[::1]:5000/x", "http://x/y", "x?y", "x#y", "x%2fy",
	    "x&y=z", "x\n", "é", "x:a\n", "user@host/x", "x\\y", "x;y", "$(x)", "_x", "x_/y"};
	char text[600];
	struct image_ref ref;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(bad[i], &ref) == 0)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(image_parse("a\0b", 3, &ref), -1);
	memset(text, 'a', sizeof(text));
	for (size_t n = 1; n < sizeof(text); n++)
		assert_int_equal(image_parse(text, n, &ref), n < sizeof(ref.name) ? 0 : -1);
	memset(text, 'a', 3);
	text[1] = ':';
	assert_int_equal(image_parse(text, 2 + 128, &ref), 0);
	assert_int_equal(image_parse(text, 2 + 129, &ref), -1);
}

static int
allowed(const char *globs, const char *image)
{
	struct image_ref ref;

	assert_int_equal(parse(image, &ref), 0);
	return image_allowed(globs, image, &ref);
}

static void
globs_cover_the_text_as_it_was_given(void **state)
{
	(void)state;
	assert_true(allowed("*", "python") && allowed("*", "a.example.com/x:y"));
	assert_true(allowed("python:*", "python:3"));
	assert_true(allowed(" x , python:* ,", "python:3") && allowed(",,python:*", "python:3"));
	assert_true(allowed("node:20-slim,python:3.1?", "python:3.12"));
	assert_true(allowed("python*", "pythonx/tool"));
	assert_false(
	    allowed("python:*", "python.a.example/x") || allowed("python:*", "pythonx/tool"));
	assert_false(allowed("python:*", "python") || allowed("python:*", "pythonx:1"));
	assert_false(allowed("python:*", "evil/python:3") || allowed("", "python") ||
		     allowed(" , ", "python"));
	assert_false(allowed("python", "python:3") || allowed("py\\thon", "python"));
}

static void
registries_are_covered_only_by_globs_that_name_one(void **state)
{
	(void)state;
	assert_false(allowed("python*", "python.a.example/x") || allowed("p*/x", "p.a.example/x") ||
		     allowed("*x", "a.example/x") || allowed("?*", "a.example/x"));
	assert_true(
	    allowed("a.example/*", "a.example/x/y") && allowed("*.a.example/*", "b.a.example/x"));
	assert_true(allowed("*/team/*", "a.example/team/x") && allowed("*", "a.example/x"));
	assert_false(allowed("a.example/*", "b.example/a.example/x") ||
		     allowed("*.a.example/*", "b.example/c.a.example/x"));
	assert_true(allowed("p*/x", "python/x"));
}

static void
registries_nearby_must_stand_literally(void **state)
{
	static const char *const near[] = {"localhost/x", "localhost:5000/x", "127.0.0.1/x",
	    "127.1/x", "10.0.0.1:80/x", "HOST/x", "reg.example.com:5000/x", "x.localhost/x",
	    "x.local/x", "metadata.google.internal/x", "1.2.3.0x7f/x"};
	char glob[128];
	struct image_ref ref;

	(void)state;
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		assert_false(
		    allowed("*", near[i]) || allowed("*/*", near[i]) || allowed("?*/x", near[i]));
		assert_int_equal(parse(near[i], &ref), 0);
		strcpy(stpcpy(glob, ref.host), "/*");
		assert_true(allowed(glob, near[i]) && allowed(near[i], near[i]));
		glob[0] = '?';
		assert_false(allowed(glob, near[i]));
	}
	assert_true(allowed("*", "reg.example.com/x") && allowed("*", "docker.io/library/x"));
	assert_false(allowed("localhost*", "localhost:5000/x") ||
		     allowed("localhost/*", "localhost:5000/x"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(references_are_taken_apart),
	    cmocka_unit_test(what_is_no_reference_is_refused),
	    cmocka_unit_test(globs_cover_the_text_as_it_was_given),
	    cmocka_unit_test(registries_are_covered_only_by_globs_that_name_one),
	    cmocka_unit_test(registries_nearby_must_stand_literally),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
