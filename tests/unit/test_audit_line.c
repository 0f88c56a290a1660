/* The end of a line of the audit log, names of its closed files, what is signed of it, and what
 * keyd keeps of that. */
// link: common/audit_line.o common/audit_state.o -lcrypto
#include "tests/unit/forked.h"

#include "common/audit_line.h"
#include "common/audit_state.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PREV ",\"prev\":\"" HEX64 "\"}"
#define NO_SEQ 0

static void
a_line_says_its_number_and_the_hash_before_it(void **state)
{
	static const struct {
		const char *line;
		uint64_t seq;
	} rows[] = {
	    {"{\"a\":1,\"seq\":7" PREV, 7},
	    {"{,\"seq\":1" PREV, 1},
	    {"{\"a\":1,\"seq\":1234567890" PREV, 1234567890},
	    {"{\"a\":1,\"seq\":9223372036854775807" PREV, INT64_MAX},
	    {"{\"a\":1,\"seq\":9223372036854775808" PREV, NO_SEQ},
	    {"{\"a\":1,\"seq\":10000000000000000000" PREV, NO_SEQ},
	    {"{\"a\":1,\"seq\":0" PREV, NO_SEQ},
	    {"{\"a\":1,\"seq\":07" PREV, NO_SEQ},
	    {"{\"a\":1,\"seq\":-7" PREV, NO_SEQ},
	    {"{\"a\":1,\"seq\":" PREV, NO_SEQ},
	    {"{\"a\":1,\"sez\":7" PREV, NO_SEQ},
	    {"{\"a\":1" PREV, NO_SEQ},
	    {"{\"seq\":7" PREV, NO_SEQ}, /* the first member is another */
	    {"{7" PREV, NO_SEQ},
	    {"{" PREV, NO_SEQ},
	};
	struct audit_end end;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (audit_line_end(rows[i].line, strlen(rows[i].line), &end) != 0)
			fail_msg("refused: %s", rows[i].line);
		if (end.seq != rows[i].seq)
			fail_msg("%llu: %s", (unsigned long long)end.seq, rows[i].line);
		assert_string_equal(end.prev, HEX64);
	}
}

static void
a_line_that_ends_otherwise_is_none(void **state)
{
	static const char *const bad[] = {"", "{}", "{\"prev\":\"" HEX64 "\"}", PREV, "[" PREV,
	    "{" PREV " ", "{,\"prev\":\"" HEX64 "0\"}", "{,\"prev\":\"" HEX64 "'}",
	    "{,\"prev\":\"" HEX64 "\"]", "{,\"prew\":\"" HEX64 "\"}"};
	char line[] = "{\"a\":1,\"seq\":7" PREV;
	const size_t n = sizeof(line) - 1, hash = n - 2 - 64;
	struct audit_end end;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (audit_line_end(bad[i], strlen(bad[i]), &end) != -1)
			fail_msg("taken: %s", bad[i]);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(audit_line_end(line, i, &end), -1);
	for (size_t i = 0; i < 64; i++)
		for (int c = 0; c < 256; c++) {
			char was = line[hash + i];
			int hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

			line[hash + i] = (char)c;
			assert_int_equal(audit_line_end(line, n, &end), hex ? 0 : -1);
			line[hash + i] = was;
		}
}

static void
a_closed_file_is_named_after_its_first_line_in_one_spelling(void **state)
{
	static const struct {
		uint64_t first;
		const char *name;
	} good[] = {{1, "audit-000000000001.log"}, {42, "audit-000000000042.log"},
	    {999999999999, "audit-999999999999.log"}, {1000000000000, "audit-1000000000000.log"},
	    {INT64_MAX, "audit-9223372036854775807.log"}};
	static const char *const bad[] = {"", "audit.log", "audit-1.log", "audit-00000000001.log",
	    "audit-0000000000001.log", "audit-00000000000a.log", "audit-000000000001.lo",
	    "audit-000000000001.logx", "audit-000000000001.log.", "Audit-000000000001.log",
	    "audit_000000000001.log", "audit-000000000001 log", "audit--00000000001.log",
	    "audit-92233720368547758070.log", "audit-:00000000001.log", "audit-/00000000001.log"};
	char name[AUDIT_CLOSED_MAX];
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_string_equal(audit_closed_name(name, good[i].first), good[i].name);
		assert_int_equal(audit_closed_parse(name, &first), 0);
		assert_int_equal(first, good[i].first);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (audit_closed_parse(bad[i], &first) != -1)
			fail_msg("taken: %s", bad[i]);
}

static void
what_is_signed_names_the_server_the_line_its_hash_and_the_time(void **state)
{
	static const char want[] =
	    "agent-sandbox audit checkpoint v1\n"
	    "0b5a7a52-2f0c-4d0e-9c1e-6a6f3a1b2c3d\n9223372036854775807\n" HEX64
	    "\n2027-01-31T00:00:00.000001Z\n";
	char text[AUDIT_SIGNED_MAX];

	(void)state;
	assert_int_equal(audit_signed_text(text, "0b5a7a52-2f0c-4d0e-9c1e-6a6f3a1b2c3d!", INT64_MAX,
			     HEX64, INT64_C(1801353600000001)),
	    sizeof(want) - 1);
	assert_string_equal(text, want);
}

static uint8_t file[AUDIT_STATE_SIZE + 1];

/* A whole file whose slots were written for the n-th time. */
static void
make(uint64_t first, uint64_t second)
{
	struct audit_state_head head = {.seed = {1, 2, 3}};
	struct audit_slot slots[2] = {
	    {.count = first, .seq = 10 * first}, {.count = second, .seq = 10 * second}};

	memset(file, 0, sizeof(file));
	audit_state_seal(&head);
	memcpy(file, &head, sizeof(head));
	for (int i = 0; i < 2; i++) {
		audit_slot_seal(&slots[i]);
		memcpy(file + AUDIT_SLOT_AT(i), &slots[i], sizeof(slots[i]));
	}
}

static enum audit_state
read_file(size_t n, uint64_t *seq, int *which)
{
	struct audit_state_head head;
	struct audit_slot slot = {0};
	enum audit_state s = audit_state_read(file, n, &head, &slot, which);

	*seq = slot.seq;
	assert_true(s != AUDIT_STATE_GOOD || (head.seed[2] == 3 && slot.seq == 10 * slot.count));
	return s;
}

static void
the_slot_that_was_written_last_counts_and_the_other_one_when_it_is_torn(void **state)
{
	uint64_t seq;
	int which;

	(void)state;
	for (int newer = 0; newer < 2; newer++) {
		make(newer == 0 ? 9 : 8, newer == 0 ? 8 : 9);
		assert_int_equal(read_file(AUDIT_STATE_SIZE, &seq, &which), AUDIT_STATE_GOOD);
		assert_true(which == newer && seq == 90);
		for (size_t i = 0; i < sizeof(struct audit_slot); i++) {
			file[AUDIT_SLOT_AT(newer) + i] ^= 0x10;
			assert_int_equal(
			    read_file(AUDIT_STATE_SIZE, &seq, &which), AUDIT_STATE_GOOD);
			assert_true(which == !newer && seq == 80);
			file[AUDIT_SLOT_AT(newer) + i] ^= 0x10;
		}
		file[AUDIT_SLOT_AT(0)] ^= 1;
		file[AUDIT_SLOT_AT(1)] ^= 1;
		assert_int_equal(read_file(AUDIT_STATE_SIZE, &seq, &which), AUDIT_STATE_DAMAGED);
	}
}

static void
a_state_is_new_whole_or_damaged(void **state)
{
	uint64_t seq;
	int which;

	(void)state;
	make(1, 2);
	for (size_t n = 0; n < AUDIT_STATE_SIZE; n++)
		assert_int_equal(
		    read_file(n, &seq, &which), n == 0 ? AUDIT_STATE_EMPTY : AUDIT_STATE_DAMAGED);
	assert_int_equal(read_file(AUDIT_STATE_SIZE + 1, &seq, &which), AUDIT_STATE_DAMAGED);
	for (size_t i = 0; i < sizeof(struct audit_state_head); i++) {
		file[i] ^= 0x10;
		assert_int_equal(read_file(AUDIT_STATE_SIZE, &seq, &which), AUDIT_STATE_DAMAGED);
		file[i] ^= 0x10;
	}
	/* The head is written last: what is behind it does not count. */
	memset(file, 0, sizeof(struct audit_state_head));
	for (size_t n = 0; n <= AUDIT_STATE_SIZE; n++)
		assert_int_equal(read_file(n, &seq, &which), AUDIT_STATE_EMPTY);
	assert_int_equal(read_file(AUDIT_STATE_SIZE + 1, &seq, &which), AUDIT_STATE_DAMAGED);
	for (size_t i = 0; i < sizeof(struct audit_state_head); i++) {
		file[i] = 1;
		assert_int_equal(read_file(AUDIT_STATE_SIZE, &seq, &which), AUDIT_STATE_DAMAGED);
		file[i] = 0;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_says_its_number_and_the_hash_before_it),
	    cmocka_unit_test(a_line_that_ends_otherwise_is_none),
	    cmocka_unit_test(a_closed_file_is_named_after_its_first_line_in_one_spelling),
	    cmocka_unit_test(what_is_signed_names_the_server_the_line_its_hash_and_the_time),
	    cmocka_unit_test(
		the_slot_that_was_written_last_counts_and_the_other_one_when_it_is_torn),
	    cmocka_unit_test(a_state_is_new_whole_or_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
