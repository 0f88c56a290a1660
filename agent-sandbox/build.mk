PROGRAMS += agent-sandbox
AGENT_SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandbox/*.c))
$(BUILD)/agent-sandbox: $(AGENT_SANDBOX_OBJS) $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lcrypto -lbsd
