/* Brings records and engine into step: at the start, and each time the engine is back. */
#ifndef MANAGERD_RECONCILE_H
#define MANAGERD_RECONCILE_H

#include <stdint.h>

void reconcile_start(void);
int reconcile_done(void); /* the engine was listed once */
/* enum d_event about a container of ours */
void reconcile_event(const char *container, uint32_t event);

#endif
