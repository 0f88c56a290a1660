/* The table of tools (tools.h). What stands in "about" is read by a model that has nothing else. */
#include "clients/mcp/tools.h"

#include <string.h>

#define OR_NULL TOOL_STRING_OR_NULL

#define ABOUT_SANDBOX \
	"Id of the sandbox (sb_...), from sandbox_create, sandbox_fork or sandbox_list."
#define ABOUT_SNAPSHOT "Id of the snapshot (snap_...), from sandbox_snapshot."
#define ABOUT_TIMEOUT                                                                      \
	"Seconds until the sandbox destroys itself with all its files, counted from now. " \
	"Not given: the server's default, usually 900. Choose it for the whole task."

#define SANDBOX_ID                                              \
	{                                                       \
		"sandbox_id", ARG_ID, 1, ABOUT_SANDBOX, 0, NULL \
	}

static const struct tool_member sandbox[] = {
    {"id", "string", "For all other calls."},
    {"status", "string", "running, or stopped: its next use starts it again."},
    {"image", "string", "The Docker image."},
    {"network", "boolean", "Whether it reaches the network."},
    {"expires_at", "string", "When it destroys itself, in UTC."},
    {"source_snapshot_id", OR_NULL, "The snapshot that its files come from."},
    {NULL, NULL, NULL},
};

static const struct tool_member file[] = {
    {"name", "string", "Its name in its folder."},
    {"path", "string", "Its absolute path."},
    {"type", "string", "file, directory, symlink or other."},
    {"size", "integer", "In bytes."},
    {"modified_at", "string", "When it was changed, in UTC."},
    {NULL, NULL, NULL},
};

static const struct tool_member exec[] = {
    {"stdout", "string", "What it printed."},
    {"stderr", "string", "What it printed as errors."},
    {"exit_code", "integer", "0: success; 127: no such command; 128+N: ended by signal N."},
    {"timed_out", "boolean", "Killed at timeout_seconds: the output is what came until then."},
    {"truncated", "boolean", "The middle of long output was left out."},
    {"duration_ms", "integer", "How long it ran."},
    {NULL, NULL, NULL},
};

static const struct tool_member snapshot[] = {
    {"id", "string", "For sandbox_rollback and sandbox_fork."},
    {"sandbox_id", "string", "The sandbox that it was taken of."},
    {"name", OR_NULL, "As given."},
    {"image", "string", "The image of the sandbox."},
    {"size_bytes", "integer", "Of the files in it."},
    {"created_at", "string", "When it was taken, in UTC."},
    {NULL, NULL, NULL},
};

static const struct tool_member content[] = {
    {"result", "string", "The content."},
    {"truncated", "boolean", "The middle of a long file was left out."},
    {NULL, NULL, NULL},
};

static const struct tool_member done[] = {
    {"result", "string", "What was done."},
    {NULL, NULL, NULL},
};

const struct tool tools[TOOL_COUNT] = {
    {TOOL_CREATE, "sandbox_create", "Create a sandbox",
	"Creates a fresh, isolated Linux container to run code in, and returns its id, which all "
	"other tools need. It begins with an empty /workspace, has no network unless network is "
	"true, and is destroyed with its files when its time is over. Reuse one sandbox for the "
	"steps of a task: files and background processes stay between calls.",
	{{"image", ARG_STRING, 0,
	     "Docker image, such as \"python:3.12-slim\" or \"node:20-slim\". Not given: the "
	     "server's default. An image that the server does not have yet is pulled first, which "
	     "can take minutes.",
	     0, NULL},
	    {"network", ARG_BOOLEAN, 0,
		"Whether programs in the sandbox can reach the network, for instance to install "
		"packages. Without it they reach nothing, or only the hosts that the server lists, "
		"through the proxy that is set already. The server may forbid it.",
		0, "false"},
	    {"timeout_seconds", ARG_INTEGER, 0, ABOUT_TIMEOUT, 1, NULL},
	    {"cpus", ARG_NUMBER, 0, "How many processors it may use, such as 0.5 or 2.", 0, NULL},
	    {"memory_mb", ARG_INTEGER, 0, "Memory limit in MiB.", 16, NULL}},
	HINT_OPEN_WORLD, sandbox, 0},
    {TOOL_LIST, "sandbox_list", "List sandboxes",
	"Lists the sandboxes that exist on this server, oldest first, also those of other tasks.",
	{{0}}, HINT_READS, sandbox, 1},
    {TOOL_EXEC, "sandbox_exec", "Run a command",
	"Runs a shell command (/bin/sh -c) in the sandbox, waits for its end, and returns stdout, "
	"stderr and exit_code. A command that fails is a normal result with exit_code other than "
	"0. There is no input and no terminal. Each call is a new shell: the working directory and "
	"variables do not last, files do. Start servers in the background: \"cmd > log 2>&1 &\". "
	"Long output is returned as its beginning and its end.",
	{SANDBOX_ID,
	    {"command", ARG_STRING, 1,
		"The command line. Pipes, &&, redirections and several lines work.", 0, NULL},
	    {"workdir", ARG_STRING, 0,
		"Working directory, absolute or relative to /workspace. It must exist.", 0,
		"\"/workspace\""},
	    {"timeout_seconds", ARG_NUMBER, 0,
		"Seconds after which the command and all that it started are killed: timed_out is "
		"true then, and the output so far is returned. Not given: the server's default, "
		"usually 60. Raise it for builds and tests.",
		0, NULL}},
	HINT_DESTROYS | HINT_OPEN_WORLD, exec, 0},
    {TOOL_READ_FILE, "sandbox_read_file", "Read a file",
	"Returns the content of a text file. A long file is returned as its beginning and its end; "
	"to see other parts, use sandbox_exec with sed -n, head, tail or grep. Bytes that are not "
	"UTF-8 are shown as U+FFFD.",
	{SANDBOX_ID, {"path", ARG_NAME, 1, "Path of the file, absolute or relative to /workspace.",
			 0, NULL}},
	HINT_READS, content, 0},
    {TOOL_WRITE_FILE, "sandbox_write_file", "Write a file",
	"Creates a text file under /workspace, or replaces it whole. Folders on the way are made. "
	"Better than sandbox_exec for anything with quotes or many lines.",
	{SANDBOX_ID,
	    {"path", ARG_NAME, 1, "Path of the file, relative to /workspace or absolute below it.",
		0, NULL},
	    {"content", ARG_STRING, 1, "The whole new content of the file.", 0, NULL}},
	HINT_DESTROYS | HINT_REPEATS, file, 0},
    {TOOL_LIST_FILES, "sandbox_list_files", "List a folder",
	"Lists one folder: name, path, type, size in bytes and time of change of each entry, also "
	"of hidden ones. It does not go into subfolders.",
	{SANDBOX_ID,
	    {"path", ARG_NAME, 0, "Path of the folder, absolute or relative to /workspace.", 0,
		"\"/workspace\""}},
	HINT_READS, file, 1},
    {TOOL_SNAPSHOT, "sandbox_snapshot", "Take a snapshot",
	"Saves /workspace as it is now and returns the snapshot's id. Do this before a risky "
	"change, to undo it with sandbox_rollback, and to try several ways at once with "
	"sandbox_fork. Programs, memory and files outside of /workspace are not part of it.",
	{SANDBOX_ID,
	    {"name", ARG_STRING, 0, "What it is, for people, up to 128 characters.", 0, NULL}},
	0, snapshot, 0},
    {TOOL_ROLLBACK, "sandbox_rollback", "Roll back to a snapshot",
	"Puts /workspace of the sandbox back to exactly what the snapshot holds. Later changes are "
	"lost, every process in the sandbox ends and /tmp is emptied. Id and expiry stay.",
	{SANDBOX_ID, {"snapshot_id", ARG_ID, 1, ABOUT_SNAPSHOT, 0, NULL}},
	HINT_DESTROYS | HINT_REPEATS, sandbox, 0},
    {TOOL_FORK, "sandbox_fork", "Fork a snapshot",
	"Creates a new sandbox whose /workspace is what the snapshot holds, with the image and "
	"limits of the sandbox that it was taken of, which is not touched. Fork one snapshot "
	"several times to try different ways side by side.",
	{{"snapshot_id", ARG_ID, 1, ABOUT_SNAPSHOT, 0, NULL},
	    {"timeout_seconds", ARG_INTEGER, 0, ABOUT_TIMEOUT, 1, NULL}},
	0, sandbox, 0},
    {TOOL_DESTROY, "sandbox_destroy", "Destroy a sandbox",
	"Ends the sandbox: its processes and files are gone for good, its snapshots stay. Do this "
	"when the task is done.",
	{SANDBOX_ID}, HINT_DESTROYS | HINT_REPEATS, done, 0},
};

const struct tool *
tool_find(const char *name)
{
	for (size_t i = 0; i < TOOL_COUNT; i++)
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	return NULL;
}
