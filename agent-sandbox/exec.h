/* What the files of "agent-sandbox exec" offer each other. */
#ifndef AGENT_SANDBOX_EXEC_H
#define AGENT_SANDBOX_EXEC_H

#include <jansson.h>

/* What becomes of the events of a command. */
enum exec_output {
	EXEC_RAW,    /* its output is ours, byte for byte */
	EXEC_EVENTS, /* one JSON object a line, as they come */
	EXEC_RESULT, /* one JSON object at the end */
};

struct exec_end {
	int known; /* the command's end was told */
	int exit_code, timed_out;
	char *error; /* why no end is known, as the server says it */
};

void exec_output_init(enum exec_output);
/* Takes one event of the stream. 0, or -1 when nothing more can be written: then output_failed
 * is set. */
int exec_output_event(const json_t *event, struct exec_end *);
/* Prints what is printed at the end. */
void exec_output_end(void);
/* Why exec_output_event() said -1, as an errno. */
int exec_output_errno(void);

/* Standard input, for api_call_upload(): nothing is read before it is there. */
ssize_t exec_input_read(void *, char *buf, size_t size);
/* 1: there is one to pass on. 0: it is closed, empty, or not ours to read. */
int exec_input_there(void);
/* exec_input_read() has said API_LATER, and is to be called again once there is something. */
int exec_input_waits(void);
void exec_input_go_on(void);

#endif
