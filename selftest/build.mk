# The self-test's program for inside: static, so that it needs nothing of any image; carried by agent-sandbox.
SELFTEST_OBJS := $(patsubst %.c,$(BUILD)/init-obj/%.o,$(wildcard selftest/*.c))
$(BUILD)/selftest-probe: $(SELFTEST_OBJS)
	$(CC) -static -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,noexecstack -s -o $@ $^
