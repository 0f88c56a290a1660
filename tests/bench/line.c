/* How long a line of the audit log takes: so many as of execs, with what the options say. Prints
 * nanoseconds for each. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "managerd/audit.h"
#include "managerd/request.h"
#include "managerd/tenant.h"

int
main(int argc, char **argv)
{
	const struct audit_rules rules = {.max_bytes = 64 << 20, .refuse = 1};
	struct request rq = {.action = "exec",
	    .peer = "192.0.2.1:12345",
	    .request_id = "req_0123456789abcdef",
	    .key_name = "ci",
	    .target = "sb_0123456789abcdef",
	    .has_args = 1,
	    .args_len = 17};
	int n = argc > 1 ? atoi(argv[1]) : 1000, exit_code = 0;
	struct timespec a, b;

	rq.tenant = tenant_get("default");
	audit_open(&rules, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < n; i++)
		audit_request(&rq, 200, &exit_code);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	printf(
	    "%.0f\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n);
	return 0;
}
