/* Removes files, and folders with everything in them, however deep. */
#ifndef SANDBOX_INIT_SWEEP_H
#define SANDBOX_INIT_SWEEP_H

/* Removes name from the folder parent as far as that is possible. A folder that is a mount point is
 * only emptied. */
void sweep(int parent, const char *name);

#endif
