# Probe builds: each program's own objects, with a child_setup.o that makes one attempt from inside the confinement
# instead of going on (tests/tools/probe.c). Never installed.
PROBED := apid managerd dockerd-proxy egressd keyd sessiond
PROBE_OBJS := $(addprefix $(BUILD)/probe/,child_setup.o probe.o)
PROBE_COMMON := $(filter-out %/child_setup.o,$(COMMON_EVENT)) $(FRAME) \
	$(addprefix $(BUILD)/obj/,common/uhttp.o common/image_ref.o) $(PROBE_OBJS)
PROBE_LIBS := -levent_openssl -levent_extra -levent_core -lcares -ljansson -lcurl -lzstd -lssl -lcrypto -lbsd

$(BUILD)/probe/%.o: ALL_CFLAGS += -DPROBE
$(BUILD)/probe/%.o: common/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/probe/%.o: tests/tools/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# $(call probe,PROGRAM,OBJECTS)
define probe
$(BUILD)/probe/$(1): $(sort $(2) $(PROBE_COMMON))
	$$(CC) $$(ALL_LDFLAGS) -o $$@ $$^ $(PROBE_LIBS)
endef
$(eval $(call probe,apid,$(APID_OBJS) $(addprefix $(BUILD)/obj/common/,base64.o keys_net.o)))
$(eval $(call probe,managerd,$(MANAGERD_OBJS)))
$(eval $(call probe,dockerd-proxy,$(DOCKERD_PROXY_OBJS) $(EGRESS)))
$(eval $(call probe,egressd,$(EGRESSD_OBJS) $(EGRESS)))
$(eval $(call probe,keyd,$(KEYD_OBJS)))
$(eval $(call probe,sessiond,$(SESSIOND_OBJS)))

probes: $(PROBED:%=$(BUILD)/probe/%)
