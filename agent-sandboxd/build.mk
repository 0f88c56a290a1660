PROGRAMS += agent-sandboxd
NFT := $(BUILD)/obj/common/nft.o $(BUILD)/obj/common/procfs.o
AGENT_SANDBOXD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandboxd/*.c))
$(AGENT_SANDBOXD_OBJS): ALL_CFLAGS += -DLIBEXECDIR='"$(PREFIX)/libexec/agent-sandbox"'
$(BUILD)/agent-sandboxd: $(AGENT_SANDBOXD_OBJS) $(CONFIG_OBJS) $(NFT) $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lbsd
