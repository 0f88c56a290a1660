PROGRAMS += keyd
KEYD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard keyd/*.c))
$(BUILD)/keyd: $(KEYD_OBJS) $(AUDIT_LINE) $(AUDIT_STATE) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -lcrypto -lbsd
