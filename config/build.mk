# From names and values to checked settings: for agent-sandboxd, which has the say, and the command's doctor.
CONFIG_OBJS := $(addprefix $(BUILD)/obj/config/,parse.o check.o check_front.o address.o load.o) $(BUILD)/obj/common/image_ref.o $(BUILD)/obj/common/keys_net.o $(EGRESS)
