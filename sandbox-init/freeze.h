/* Makes all other processes stand still, so that a snapshot shows one moment. */
#ifndef SANDBOX_INIT_FREEZE_H
#define SANDBOX_INIT_FREEZE_H

/*
 * Begins; done(arg, 1) is called when nothing runs any more, done(arg, 0) after two seconds in vain
 * (then all goes on). Only when !freeze_active().
 */
void freeze_begin(void (*done)(void *arg, int frozen), void *arg);
/* All that was stopped for it goes on, and what waited for that begins. Does nothing when not
 * active. */
void freeze_end(void);
/* As freeze_end(), but what waited is left alone: the attachment is gone. */
void freeze_abort(void);
int freeze_active(void);
/*
 * Whether none of what was stopped has run since done(arg, 1): a process can have itself continued,
 * by a timer for example.
 */
int freeze_held(void);

#endif
