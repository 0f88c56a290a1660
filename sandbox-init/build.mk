# PID 1 of a sandbox: static, without sanitizers, and as small as it can be, since it needs nothing of the image.
PROGRAMS += sandbox-init
SANDBOX_INIT_OBJS := $(patsubst %.c,$(BUILD)/init-obj/%.o,$(wildcard sandbox-init/*.c) common/frame.c common/crc32.c \
	common/egress.c common/egress_list.c common/egress_range.c)
$(BUILD)/init-obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE -I. $(WARN) $(HARDEN) -O2 -g -ffunction-sections -fdata-sections \
		-DVERSION='"$(VERSION)"' -MMD -MP -c -o $@ $<
$(BUILD)/sandbox-init: $(SANDBOX_INIT_OBJS)
	$(CC) -static -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,noexecstack -o $@.debug $^ -larchive
	strip -o $@ $@.debug

# Starts it in the tests as a container would.
$(BUILD)/tests/guest_launch: tests/tools/guest_launch.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) -O2 -o $@ $<
probes: $(BUILD)/tests/guest_launch
