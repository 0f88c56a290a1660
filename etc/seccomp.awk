# Turns etc/seccomp.txt into the JSON of the container engines. Any awk; anything that it does not understand is an error.
# With -v sentry=1 as gVisor takes it, where a filter has 4,096 instructions at most: a condition "is not 1" is left out, which keeps
# PID 1 from being moved, slowed down or favoured. gVisor's own kernel does none of that to anybody.

BEGIN {
	print "{\"defaultAction\":\"SCMP_ACT_ERRNO\","
	print "\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":[]},"
	print "{\"architecture\":\"SCMP_ARCH_AARCH64\",\"subArchitectures\":[]}],"
	printf "\"syscalls\":["
}

function fail(why)
{
	print FILENAME ":" FNR ": " why > "/dev/stderr"
	failed = 1
	exit 1
}

# Decimal of "12" or "0x7e".
function number(text,    i, n)
{
	if (text ~ /^[0-9]+$/)
		return text + 0
	if (text !~ /^0x[0-9a-f]+$/)
		fail("bad number: " text)
	for (i = 3; i <= length(text); i++)
		n = n * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
	return n
}

function condition(arg, mask, value)
{
	return sprintf("{\"index\":%d,\"value\":%.0f,\"valueTwo\":%.0f,\"op\":\"SCMP_CMP_MASKED_EQ\"}",
	    arg, mask, value)
}

function rule(action, names, conditions)
{
	printf "%s\n{\"names\":[%s],\"action\":%s,\"args\":[%s]}", comma, names, action, conditions
	comma = ","
}

/^(#|$)/ {
	next
}

$1 == "errno" && $2 ~ /^[0-9]+$/ && NF > 2 {
	names = ""
	for (i = 3; i <= NF; i++)
		names = names (names == "" ? "" : ",") "\"" $i "\""
	rule("\"SCMP_ACT_ERRNO\",\"errnoRet\":" $2, names, "")
	next
}

$1 == "allow" && NF > 1 {
	names = conditions = ""
	not_one = -1
	for (i = 2; i <= NF && $i != "if"; i++) {
		if ($i !~ /^[a-z][a-z0-9_]*$/ || $i in seen && seen[$i] == "always")
			fail("bad or repeated name: " $i)
		names = names (names == "" ? "" : ",") "\"" $i "\""
		seen[$i] = "maybe"
	}
	if (i > NF) {
		for (i = 2; i <= NF; i++)
			seen[$i] = "always"
	}
	if (i == NF)
		fail("no condition behind if")
	for (i++; i <= NF; i++) {
		arg = substr($i, 2, 1)
		if ($i ~ /^a[0-5]!=1$/) {
			if (!sentry)
				not_one = arg
			continue
		}
		if ($i ~ /^a[0-5]=[0-9a-fx]+$/)
			one = condition(arg, number("0xffffffff"), number(substr($i, 4)))
		else if ($i ~ /^a[0-5]&0x[0-9a-f]+=[0-9a-fx]+$/) {
			split(substr($i, 4), part, "=")
			one = condition(arg, number(part[1]), number(part[2]))
		} else
			fail("bad condition: " $i)
		conditions = conditions (conditions == "" ? "" : ",") one
	}
	if (not_one == -1) {
		rule("\"SCMP_ACT_ALLOW\"", names, conditions)
		next
	}
	# Not 1: bit 0 is not set, or some higher one is.
	for (bit = 0; bit < 32; bit++) {
		one = condition(not_one, 2 ^ bit, bit == 0 ? 0 : 2 ^ bit)
		rule("\"SCMP_ACT_ALLOW\"", names, conditions (conditions == "" ? "" : ",") one)
	}
	next
}

{
	fail("not understood: " $0)
}

END {
	if (!failed)
		print "]}"
}
