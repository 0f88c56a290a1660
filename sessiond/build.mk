PROGRAMS += sessiond
SESSIOND_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard sessiond/*.c))
$(BUILD)/sessiond: $(SESSIOND_OBJS) $(COMMON_EVENT) $(FRAME)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -l:libcrypto.a -lzstd -lbsd
