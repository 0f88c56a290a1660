/* Names for what is not finished yet: hidden, unguessable, and left out of snapshots. */
#ifndef SANDBOX_INIT_TEMP_H
#define SANDBOX_INIT_TEMP_H

#define TEMP_NAME_MAX 64

/* A new name, remembered until temp_forget(). */
void temp_name(char name[TEMP_NAME_MAX]);
void temp_forget(const char *name);
int temp_known(const char *name);

#endif
