/* A key that is not good any more: what it has under way ends. */
#ifndef MANAGERD_REVOKE_H
#define MANAGERD_REVOKE_H

/* Ends commands, streams and transfers, also those that wait for their sandbox, and runs, whose key
 * may not do that any more. */
void revoke_all(void);
/* From now on also when a key expires. */
void revoke_start(void);

#endif
