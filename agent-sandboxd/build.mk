PROGRAMS += agent-sandboxd
AGENT_SANDBOXD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard agent-sandboxd/*.c))
$(BUILD)/agent-sandboxd: $(AGENT_SANDBOXD_OBJS) $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lbsd
