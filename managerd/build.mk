PROGRAMS += managerd
MANAGERD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard managerd/*.c)) $(BUILD)/obj/common/image_ref.o $(EGRESS) $(KEYS) $(AUDIT_LINE)
$(BUILD)/managerd: $(MANAGERD_OBJS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -ljansson -lcrypto -lbsd
