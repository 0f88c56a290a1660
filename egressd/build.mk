PROGRAMS += egressd
EGRESSD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard egressd/*.c))
$(BUILD)/egressd: $(EGRESSD_OBJS) $(EGRESS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -lcares -lbsd
