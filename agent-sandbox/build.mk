PROGRAMS += agent-sandbox
AGENT_SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandbox/*.c))
$(AGENT_SANDBOX_OBJS): ALL_CFLAGS += -DLIBEXECDIR='"$(PREFIX)/libexec/agent-sandbox"'
$(BUILD)/agent-sandbox: $(AGENT_SANDBOX_OBJS) $(CONFIG_OBJS) $(NFT) $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lbsd
