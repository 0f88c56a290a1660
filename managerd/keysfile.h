/* The key file, as the parent hands it over. */
#ifndef MANAGERD_KEYSFILE_H
#define MANAGERD_KEYSFILE_H

/* Reads and closes fd. The first time a file that is wrong is fatal; later the keys from before
 * stay, and what a key that is gone has under way ends. */
void keysfile_arrived(int fd);
/* Whether there is none, or it was read. */
int keysfile_known(void);

#endif
