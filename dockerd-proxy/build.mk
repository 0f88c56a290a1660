PROGRAMS += dockerd-proxy
DOCKERD_PROXY_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard dockerd-proxy/*.c))
# PID 1 of the sandboxes; another one may be put in for tests.
INIT ?= $(BUILD)/sandbox-init
$(BUILD)/gen/seccomp.json $(BUILD)/gen/seccomp-sentry.json: etc/seccomp.txt etc/seccomp.awk
	@mkdir -p $(@D)
	awk $(if $(findstring sentry,$@),-v sentry=1) -f etc/seccomp.awk $< > $@
$(BUILD)/gen/init_sha256.h: $(INIT)
	@mkdir -p $(@D)
	echo "#define INIT_SHA256 \"$$(sha256sum < $(INIT) | cut -c1-64)\"" > $@
$(BUILD)/obj/dockerd-proxy/embed.o: ALL_CFLAGS += -DINIT_PATH='"$(INIT)"' \
	-DSECCOMP_PATH='"$(BUILD)/gen/seccomp.json"' -DSECCOMP_SENTRY_PATH='"$(BUILD)/gen/seccomp-sentry.json"'
$(BUILD)/obj/dockerd-proxy/embed.o: $(INIT) $(BUILD)/gen/seccomp.json $(BUILD)/gen/seccomp-sentry.json $(BUILD)/gen/init_sha256.h
$(BUILD)/dockerd-proxy: $(DOCKERD_PROXY_OBJS) $(addprefix $(BUILD)/obj/,common/uhttp.o common/image_ref.o) \
		$(EGRESS) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_core -ljansson -lcurl -lbsd
