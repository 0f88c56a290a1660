/* A configuration file of any bytes: an error text or a checked configuration, whose numbers are in
 * range. */
// link: config/parse.o config/check.o config/check_front.o config/address.o common/keys_net.o common/image_ref.o
// link: common/egress.o common/egress_list.o common/egress_range.o
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"

#define RANGE(key, type, def, lo, hi, to, doc) {CONFIG_##type, lo, hi},
static const struct {
	enum config_type type;
	int64_t min, max;
} rows[CONFIG_KEYS] = {CONFIG_TABLE(RANGE)};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct settings s;
	char text[CONFIG_ERROR_MAX], *buf = malloc(size + 1);

	if (buf == NULL)
		return 0;
	memcpy(buf, data, size);
	buf[size] = '\0';
	config_init(&s);
	if (config_put_lines(&s, buf, text, NULL) == 0)
		config_check(&s, text);
	else if (strlen(text) == 0 || strlen(text) >= sizeof(text))
		abort();
	for (int key = 0; key < CONFIG_KEYS; key++) {
		if (s.c.str[key] == NULL || strlen(s.c.str[key]) >= CONFIG_STRING_MAX)
			abort();
		if ((rows[key].type == CONFIG_INT || rows[key].type == CONFIG_DEC) &&
		    (s.c.num[key] < rows[key].min || s.c.num[key] > rows[key].max))
			abort();
	}
	config_free(&s);
	free(buf);
	return 0;
}
