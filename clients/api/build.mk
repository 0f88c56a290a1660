# The C client of the REST API: for the command and for the MCP server, which link -lcurl -ljansson -lbsd with it.
API_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard clients/api/*.c))
