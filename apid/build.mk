PROGRAMS += apid
APID_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard apid/*.c))
# Every file of pages/ is served, and the description of the API. "pages" itself: a file that goes changes only that.
PAGES := $(filter-out %.mk %.md %~,$(wildcard pages/*)) $(BUILD)/gen/openapi.json
$(BUILD)/gen/pages.inc: apid/pages-table $(PAGES) pages
	@mkdir -p $(@D)
	apid/pages-table $(PAGES) > $@
$(BUILD)/obj/apid/pages.o: $(BUILD)/gen/pages.inc $(PAGES)
$(BUILD)/apid: $(APID_OBJS) $(addprefix $(BUILD)/obj/common/,base64.o keys_net.o) $(COMMON_EVENT)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -levent_openssl -levent_extra -levent_core -ljansson -lssl -lcrypto -lbsd
