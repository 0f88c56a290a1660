# The description of the API: written by a program of this folder from apid's tables and its own.
OPENAPI_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard openapi/*.c))
$(BUILD)/gen/write-openapi: $(OPENAPI_OBJS)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -ljansson
$(BUILD)/gen/openapi.json: $(BUILD)/gen/write-openapi
	$< > $@
$(BUILD)/obj/agent-sandbox/openapi.o: ALL_CFLAGS += -DOPENAPI_PATH='"$(BUILD)/gen/openapi.json"'
$(BUILD)/obj/agent-sandbox/openapi.o: $(BUILD)/gen/openapi.json
