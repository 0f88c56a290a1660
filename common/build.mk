# Mechanism shared by the programs. COMMON: for all; COMMON_EVENT: with libevent.
COMMON := $(addprefix $(BUILD)/obj/common/,log.o ids.o chan.o record.o confine.o confine_groups.o child_setup.o)
COMMON_EVENT := $(COMMON) $(addprefix $(BUILD)/obj/common/,chan_event.o child.o)
FRAME := $(BUILD)/obj/common/frame.o
