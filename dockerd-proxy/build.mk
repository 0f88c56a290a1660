PROGRAMS += dockerd-proxy
DOCKERD_PROXY_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard dockerd-proxy/*.c))
$(BUILD)/dockerd-proxy: $(DOCKERD_PROXY_OBJS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -ljansson -lcurl -lbsd
