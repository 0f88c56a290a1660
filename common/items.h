/* Comma-separated lists, as settings write them. */
#ifndef COMMON_ITEMS_H
#define COMMON_ITEMS_H

#include <stddef.h>

/*
 * The next item, without the blanks around it, and its length; NULL at the end. Empty items are
 * skipped. *list moves behind it. Pure.
 */
const char *items_next(const char **list, size_t *len);

#endif
