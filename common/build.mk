# Mechanism shared by the programs. COMMON: for all; COMMON_EVENT: with libevent.
COMMON_MODULES := log ids items pool_list chan chan_gate record child_setup confine confine_groups confine_filter confine_root confine_landlock confine_client
COMMON := $(COMMON_MODULES:%=$(BUILD)/obj/common/%.o)
COMMON_EVENT := $(COMMON) $(addprefix $(BUILD)/obj/common/,chan_event.o child.o)
FRAME := $(BUILD)/obj/common/frame.o $(BUILD)/obj/common/crc32.o
# Lists of where a sandbox may connect to; for the programs that read them.
EGRESS := $(addprefix $(BUILD)/obj/common/,egress.o egress_list.o egress_range.o)
# The key file; links -ljansson.
KEYS := $(addprefix $(BUILD)/obj/common/,keys_file.o keys_line.o keys_net.o)
# Lines of the audit log; for who writes, signs and reads them.
AUDIT_LINE := $(BUILD)/obj/common/audit_line.o
# What keyd has signed of it; links -lcrypto.
AUDIT_STATE := $(BUILD)/obj/common/audit_state.o
