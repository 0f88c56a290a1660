/* JSON as the tables write it: ' stands for ", and ` for ', so that C strings need no backslashes.
 */
#ifndef OPENAPI_LOOSE_H
#define OPENAPI_LOOSE_H

#include <jansson.h>

/* An object of these members ("" is none); any value. A mistake in a table ends the program. The
 * caller owns what it gets. */
json_t *loose_object(const char *members);
json_t *loose_value(const char *text);

/* As json_object_set_new() and json_array_append_new(), which take v; failures end the program. */
void put(json_t *object, const char *name, json_t *v);
void add(json_t *array, json_t *v);
/* Says what is wrong with the tables, and ends. */
void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
