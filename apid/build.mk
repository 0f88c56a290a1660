PROGRAMS += apid
APID_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard apid/*.c))
$(BUILD)/apid: $(APID_OBJS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_extra -levent_core -ljansson -lcrypto -lbsd
