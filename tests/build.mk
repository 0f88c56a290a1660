# Unit tests (tests/unit/test_*.c) and fuzz targets (tests/fuzz/fuzz_*.c). What such a file needs beside common/ stands
# in its first ten lines: "// link: apid/path.o -ljansson" (several such lines add up).
TEST_COMMON := $(sort $(COMMON_EVENT) $(FRAME))
TEST_LIBS := -levent_core -lbsd
test_link = $(shell sed -n '1,10s|^// *link:||p' $(1))
test_objs = $(addprefix $(BUILD)/obj/,$(filter %.o,$(1)))
UNIT_NAMES := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
FUZZ_NAMES := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
UNIT_TESTS := $(addprefix $(BUILD)/tests/unit/,$(UNIT_NAMES))
FUZZ_REPLAYS := $(patsubst %,$(BUILD)/tests/fuzz/%_replay,$(FUZZ_NAMES))

# $(call unit_test,NAME,LINK)
define unit_test
$(BUILD)/tests/unit/$(1): $(BUILD)/obj/tests/unit/$(1).o $(call test_objs,$(2)) $(TEST_COMMON)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(filter -l%,$(2)) -lcmocka $(TEST_LIBS)
endef
# $(call fuzz_target,NAME,LINK): one program that replays a corpus, one that libFuzzer drives (only in "make fuzz").
define fuzz_target
$(BUILD)/tests/fuzz/$(1)_replay: $(BUILD)/obj/tests/fuzz/$(1).o $(BUILD)/obj/tests/fuzz/replay_main.o \
		$(call test_objs,$(2)) $(TEST_COMMON)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(filter -l%,$(2)) $(TEST_LIBS)
$(BUILD)/tests/fuzz/$(1): $(BUILD)/obj/tests/fuzz/$(1).o $(call test_objs,$(2)) $(TEST_COMMON)
	@mkdir -p $$(@D)
	$$(CC) $$(ALL_LDFLAGS) -fsanitize=fuzzer -o $$@ $$^ $(filter -l%,$(2)) $(TEST_LIBS)
endef
$(foreach t,$(UNIT_NAMES),$(eval $(call unit_test,$(t),$(call test_link,tests/unit/$(t).c))))
$(foreach t,$(FUZZ_NAMES),$(eval $(call fuzz_target,$(t),$(call test_link,tests/fuzz/$(t).c))))

# The programs once more, with a PID 1 in the containers that breaks the guest protocol.
HOSTILE := $(BUILD)/tests/hostile
$(HOSTILE)/init: tests/e2e/guest/hostile_init.c common/frame.c common/crc32.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE -I. $(WARN) -O2 -static -o $@ $^
$(HOSTILE)/obj/gen/init_sha256.h: $(HOSTILE)/init
	@mkdir -p $(@D)
	echo "#define INIT_SHA256 \"$$(sha256sum < $< | cut -c1-64)\"" > $@
$(HOSTILE)/obj/embed.o: dockerd-proxy/embed.c $(HOSTILE)/init $(HOSTILE)/obj/gen/init_sha256.h $(BUILD)/gen/seccomp.json
	$(CC) -I$(HOSTILE)/obj/gen $(ALL_CFLAGS) -DINIT_PATH='"$(HOSTILE)/init"' \
		-DSECCOMP_PATH='"$(BUILD)/gen/seccomp.json"' -DSECCOMP_SENTRY_PATH='"$(BUILD)/gen/seccomp-sentry.json"' -c -o $@ $<
$(HOSTILE)/dockerd-proxy: $(HOSTILE)/obj/embed.o $(filter-out %/embed.o,$(DOCKERD_PROXY_OBJS)) \
		$(addprefix $(BUILD)/obj/,common/uhttp.o common/image_ref.o) $(EGRESS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -ljansson -lcurl -lbsd
HOSTILE_COPIES := $(addprefix $(HOSTILE)/,agent-sandbox agent-sandboxd apid managerd egressd keyd sessiond)
$(HOSTILE_COPIES): $(HOSTILE)/%: $(BUILD)/%
	@mkdir -p $(@D)
	cp $< $@
.PHONY: hostile
hostile: $(HOSTILE)/dockerd-proxy $(HOSTILE_COPIES)

# A test's main file has functions that only a runner calls.
$(BUILD)/obj/tests/%.o: ALL_CFLAGS += -Wno-missing-prototypes

# All of a test run that must be compiled. -k: what does not build is counted as a failure by tests/run.
.PHONY: test-programs probes fuzz
test-programs: $(UNIT_TESTS) $(FUZZ_REPLAYS)
# Others hang the probe builds of their programs on this.
probes:

# Libfuzzer runs each target for FUZZ_SECONDS on a copy of its corpus; a finding stays in build/fuzz/.
FUZZ_SECONDS ?= 600
fuzz: ## let libFuzzer drive every fuzz target, sanitizers on, for FUZZ_SECONDS=600; a table
	@tools/packages install build fuzz
	$(MAKE) -j$(JOBS) CC=clang BUILD=build/fuzz SAN=fuzzer-no-link,address,undefined CFLAGS='-O1 -g' \
		$(patsubst %,build/fuzz/tests/fuzz/%,$(FUZZ_NAMES))
	tests/tools/fuzz $(FUZZ_SECONDS) $(FUZZ_NAMES)

# SOAK_CYCLES sandboxes come and go, first in peace, then while programs and the engine are killed.
SOAK_CYCLES ?= 2000
.PHONY: soak
soak: ## 2,000 sandboxes come and go, with kills: nothing may grow or be left; a table (SOAK_CYCLES=40)
	@tools/packages install build run engine test
	@SOAK_CYCLES=$(SOAK_CYCLES) SOAK_PAGE=$(SOAK_PAGE) exec tests/soak/run

# MUTANTS small changes of the sources, each in a copy of the tree: do the unit and process tests notice?
MUTANTS ?= 200
.PHONY: mutants
mutants: ## change the sources in MUTANTS=200 small ways: at least 90 % are noticed by the tests; a table
	@tools/packages install build run engine test
	@etc/create-users.sh
	@tests/tools/venv
	@MUTANTS=$(MUTANTS) exec tests/mutants/mutants.py

include tests/probe.mk

# PROGRAM once more as TO, with the changed copies of some of its SOURCES that tests/e2e/without.py wrote into WITHOUT.
WITHOUT_dockerd-proxy = $(DOCKERD_PROXY_OBJS) $(addprefix $(BUILD)/obj/,common/uhttp.o common/image_ref.o) $(EGRESS) $(COMMON_EVENT)
WITHOUT_egressd = $(EGRESSD_OBJS) $(EGRESS) $(COMMON_EVENT)
.PHONY: without
without:
	@for s in $(SOURCES); do \
		$(CC) $(ALL_CFLAGS) -DINIT_PATH='"$(INIT)"' -DSECCOMP_PATH='"$(WITHOUT)/seccomp.json"' -DSECCOMP_SENTRY_PATH='"$(WITHOUT)/seccomp.json"' \
			-Wno-error -MF /dev/null -c -o "$(WITHOUT)/$${s%.c}.o" "$(WITHOUT)/$$s" || exit 1; done
	@$(CC) $(ALL_LDFLAGS) -o $(TO) $(SOURCES:%.c=$(WITHOUT)/%.o) \
		$(filter-out $(SOURCES:%.c=$(BUILD)/obj/%.o),$(WITHOUT_$(PROGRAM))) \
		-levent_core -ljansson -lcurl -lcares -lbsd
