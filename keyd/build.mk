PROGRAMS += keyd
KEYD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard keyd/*.c)) $(AUDIT_LINE) $(AUDIT_STATE)
$(BUILD)/keyd: $(KEYD_OBJS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -lcrypto -lbsd
