PROGRAMS += agent-sandbox agent-sandbox-cp
AGENT_SANDBOX_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandbox/*.c))
$(AGENT_SANDBOX_OBJS): ALL_CFLAGS += -DLIBEXECDIR='"$(PREFIX)/libexec/agent-sandbox"'
# What "selftest" puts into sandboxes.
$(BUILD)/obj/agent-sandbox/selftest.o: ALL_CFLAGS += -DPROBE_PATH='"$(BUILD)/selftest-probe"'
$(BUILD)/obj/agent-sandbox/selftest.o: $(BUILD)/selftest-probe
$(BUILD)/agent-sandbox: $(AGENT_SANDBOX_OBJS) $(API_OBJS) $(CONFIG_OBJS) $(NFT) $(KEYS) $(AUDIT_LINE) $(AUDIT_STATE) $(BUILD)/obj/common/base64.o $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lcrypto -lbsd
# The verb cp is a program of its own: libarchive and what it needs would make every start slower.
AGENT_SANDBOX_CP_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandbox/cp/*.c)) \
	$(addprefix $(BUILD)/obj/agent-sandbox/,client.o options.o show.o)
$(BUILD)/agent-sandbox-cp: $(AGENT_SANDBOX_CP_OBJS) $(API_OBJS) $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -larchive -lcurl -ljansson -lbsd
