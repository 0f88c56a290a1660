# The MCP server: clients/api on standard input and output. MCP_PURE is what its tests and fuzz targets link.
PROGRAMS += agent-sandbox-mcp
MCP_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard clients/mcp/*.c))
$(BUILD)/agent-sandbox-mcp: $(MCP_OBJS) $(API_OBJS) $(BUILD)/obj/common/base64.o $(COMMON)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lbsd
