/* The body of POST /v1/run: whatever is accepted is within the bounds of the API and of the server.
 */
// link: apid/run_request.o apid/json_in.o apid/env.o -ljansson
#include <stdlib.h>
#include <string.h>

#include "apid/fields.h"
#include "apid/run_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct config config;
	struct run_request run;
	struct refusal why;
	json_t *body;

	config.num[CFG_MAX_EXEC_TIMEOUT_SECONDS] = 200500000000;
	config.num[CFG_RUN_TIMEOUT_SECONDS] = 30;
	config.num[CFG_DEFAULT_MEMORY_MB] = 512;
	config.num[CFG_MAX_MEMORY_MB] = 4096;
	config.num[CFG_RUN_MAX_MEMORY_MB] = 1024;
	config.num[CFG_RUN_OUTPUT_BYTES] = 65536;
	if (json_parse((const char *)p, n, &body, &why) == -1)
		return 0;
	if (run_request_parse(body, &config, &run, &why) == -1) {
		if ((why.status != 400 && why.status != 422) || why.text[0] == '\0')
			abort();
	} else if (run.language == NULL || json_string_length(run.code) == 0 ||
		   run.timeout_us <= 0 || run.timeout_us > 200500000 || run.timeout_s < 1 ||
		   run.timeout_s > 201 || run.memory_mb < 16 || run.memory_mb > 1024 ||
		   run.output_bytes < 1024 || run.output_bytes > 65536)
		abort();
	json_decref(body);
	return 0;
}
