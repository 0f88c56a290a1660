/* What is said of each route: a row for each of apid/routes.h, and no other. */
#include "openapi/tables.h"

#define SB "/v1/sandboxes/{sandbox_id}"
#define SNAP "/v1/snapshots/{snapshot_id}"
#define JSON "application/json"
#define BYTES "application/octet-stream"
#define HTML "text/html; charset=utf-8"
#define METRICS "text/plain; version=0.0.4; charset=utf-8"
#define WORK "404 409 410 429 502 507" /* whatever has the sandbox do something */

const char description[] =
    "Disposable sandboxes for code that nobody has read: create, run commands, move files, "
    "snapshot, roll back, fork.\n\n"
    "**Keys.** Every path below `/v1`, and `/metrics`, needs one of the server's API keys, as "
    "`Authorization: "
    "Bearer KEY`, as `X-API-Key: KEY`, or as the password of `Authorization: Basic` with any "
    "user name. Two different keys in one request are refused. All keys see the same sandboxes. "
    "A key is never taken from a path or a query.\n\n"
    "**Bodies** are JSON in UTF-8 of at most 1 MiB, unless said otherwise. A field that does not "
    "exist, that stands twice, or that has another type is `422`; a value that this server does "
    "not allow, or that cannot be for another reason, is `400`. `null` for an optional field means "
    "that it is not given.\n\n"
    "**Queries.** `+` and `%20` mean a space, `%2B` a plus. A required parameter that is missing "
    "is `422`; one that is empty or impossible is `400`. Parameters that do not exist are not "
    "looked at.\n\n"
    "**Errors** have one shape, with a code for programs and a message for people.\n\n"
    "**Methods.** `HEAD` works wherever `GET` does, `OPTIONS` is `204` with an `Allow` header, "
    "and another method on a path that exists is `405`, with `Allow` too.\n\n"
    "**Times** are RFC 3339 in UTC. **Identifiers** are `sb_` or `snap_` with 16 lower-case "
    "hexadecimal digits; one that is malformed is `404`, like one that is unknown.\n\n"
    "**Retrying.** What reads may be repeated. Creating and forking take an `Idempotency-Key`.\n";

const struct operation operations[] = {
    {.at = "GET /healthz",
	.id = "getHealth",
	.tag = "Server",
	.summary = "Whether the server works",
	.doc = "Needs no key. While the engine cannot be reached it is `502`, within two seconds "
	       "also when the engine hangs.",
	.ok = {{200, JSON, "Health", "The server and the engine work.", NULL}},
	.errors = "502"},
    {.at = "GET /health",
	.id = "getShortHealth",
	.tag = "Runs",
	.summary = "Whether the server works, in short",
	.doc = "Needs no key. For clients of runs; `/healthz` says more.",
	.ok = {{200, JSON, "ShortHealth", "The server and the engine work.", NULL}},
	.errors = "502"},
    {.at = "GET /metrics",
	.id = "getMetrics",
	.tag = "Server",
	.summary = "What the server counts, for Prometheus",
	.doc = "In the text format of Prometheus. A key needs the scope `admin`; at "
	       "`AGENT_SANDBOX_METRICS_LISTEN` none is needed.",
	.ok = {{200, METRICS, NULL, "The metrics.", NULL}}},
    {.at = "POST /v1/run",
	.id = "runCode",
	.tag = "Runs",
	.summary = "Run a program in a sandbox of its own",
	.doc =
	    "The answer comes when the program has ended, and the sandbox is gone then. A program "
	    "that fails is a result too; one that runs past its time limit is `408`. A client "
	    "that goes away ends the run. Fields that do not exist are not looked at. An error "
	    "of this path has its message also in `detail`.",
	.body = "RunRequest",
	.examples = "'python': {'code': 'print(sum(range(10)))'}, 'javascript': {'code': "
		    "'console.log(6 * 7)', 'language': 'javascript', 'limits': {'timeout_seconds': "
		    "5, 'memory_mb': 128}}, 'kept': {'code': 'print(1, file=open(`a.txt`, `w`))', "
		    "'snapshot': true}",
	.ok = {{200, JSON, "RunResult", "The program has run, whatever its exit code.", NULL}},
	.errors = "408 409 413 429 502 507"},
    {.at = "GET /v1/sandboxes",
	.id = "listSandboxes",
	.tag = "Sandboxes",
	.summary = "List sandboxes",
	.doc = "Oldest first. Without `limit` the list is whole; with it, `next_cursor` is the "
	       "`cursor` of the next request.",
	.params = "label limit cursor",
	.ok = {{200, JSON, "SandboxList", "The sandboxes.", NULL}}},
    {.at = "POST /v1/sandboxes",
	.id = "createSandbox",
	.tag = "Sandboxes",
	.summary = "Make a sandbox",
	.doc = "All of the body may be left out. An image that is not on the host is pulled, and "
	       "the request waits for it. Nothing is left behind by a create that fails.",
	.params = "Idempotency-Key",
	.body = "SandboxCreate",
	.examples = "'defaults': {}, 'small': {'memory_mb': 128, 'cpus': 0.5, 'timeout_seconds': "
		    "600}, 'labelled': {'labels': {'team': 'red'}, 'env': {'LANG': 'C.UTF-8'}}",
	.ok = {{201, JSON, "Sandbox", "The new sandbox, ready for commands.", NULL}},
	.errors = "409 429 502 507",
	.links = "getSandbox setSandboxTimeout execCommand streamCommand writeFile listFiles "
		 "createSnapshot deleteSandbox"},
    {.at = "GET " SB,
	.id = "getSandbox",
	.tag = "Sandboxes",
	.summary = "Show a sandbox",
	.doc = "Never waits for the engine.",
	.params = "detail",
	.ok = {{200, JSON, "Sandbox", "The sandbox.", NULL}},
	.errors = "404 410"},
    {.at = "DELETE " SB,
	.id = "deleteSandbox",
	.tag = "Sandboxes",
	.summary = "End a sandbox",
	.doc = "Its processes and its workspace are gone; its snapshots stay.",
	.params = "detail",
	.ok = {{204, NULL, NULL, "It is gone.", NULL}},
	.errors = "404 409 410 502 507"},
    {.at = "POST " SB "/timeout",
	.id = "setSandboxTimeout",
	.tag = "Sandboxes",
	.summary = "Give a sandbox more or less time",
	.params = "detail",
	.body = "SandboxTimeout",
	.examples = "'an hour': {'timeout_seconds': 3600}",
	.ok = {{200, JSON, "Sandbox", "The sandbox with its new end.", NULL}},
	.errors = "404 409 410 502 507"},
    {.at = "POST " SB "/exec",
	.id = "execCommand",
	.tag = "Commands",
	.summary = "Run a command to its end",
	.doc = "The answer comes when the command has ended, with its output and exit code. A job "
	       "that it left in the background does not hold up the answer. A client that goes "
	       "away ends its command. When the sandbox is deleted, expires or is rolled back "
	       "meanwhile, the answer is `409`, never an invented result. At most 56 commands run "
	       "at once in one sandbox.",
	.params = "detail encoding on_disconnect kill_others",
	.body = "ExecRequest",
	.examples = "'shell': {'command': 'echo hi; id -u'}, 'program': {'command': ['python3', "
		    "'-c', 'print(6 * 7)'], 'timeout_seconds': 10}, 'input': {'command': 'wc -c', "
		    "'stdin': 'hello'}",
	.ok = {{200, JSON, "ExecResult", "The command has run, whatever its exit code.", NULL}},
	.errors = WORK},
    {.at = "POST " SB "/exec/stream",
	.id = "streamCommand",
	.tag = "Commands",
	.summary = "Run a command, with its output as it comes",
	.doc =
	    "One JSON object a line, each an `ExecEvent`, sent at once. The last line is `exit`; "
	    "or `error` when it could not be completed, and then no result is known. A slow "
	    "reader slows the command. With `?request=` the body is the command's standard "
	    "input, of any size.",
	.params = "detail encoding on_disconnect kill_others request",
	.body = "ExecRequest",
	.raw = "With `?request=`: the command's standard input.",
	.raw_type = BYTES,
	.examples = "'shell': {'command': 'for i in 1 2 3; do echo $i; sleep 0.1; done'}",
	.ok = {{200, "application/x-ndjson", "ExecEvent",
	    "The lines, as they come. The schema is that of a line.", "X-Accel-Buffering"}},
	.errors = WORK},
    {.at = "GET " SB "/files",
	.id = "readFile",
	.tag = "Files",
	.summary = "Read a file",
	.doc = "The bytes of a regular file; links inside the sandbox are followed. A folder, a "
	       "device, or what the sandbox's user cannot read is `400`. A download that breaks is "
	       "cut off, so that it cannot be taken for whole.",
	.params = "path detail Range If-Range",
	.ok = {{200, BYTES, NULL, "The file.", "Accept-Ranges"},
	    {206, BYTES, NULL, "The part that `Range` names.", "Accept-Ranges Content-Range"}},
	.errors = WORK " 413 416"},
    {.at = "PUT " SB "/files",
	.id = "writeFile",
	.tag = "Files",
	.summary = "Write a file",
	.doc = "Below `/workspace` only. Folders on the way are made. The old file stays until the "
	       "new one is complete. A link at the end of the path is replaced, not followed.",
	.params = "path mode detail",
	.raw = "The content of the file; without a body it is empty.",
	.raw_type = BYTES,
	.ok = {{200, JSON, "FileInfo", "The file as it is now.", NULL}},
	.errors = WORK},
    {.at = "GET " SB "/files/list",
	.id = "listFiles",
	.tag = "Files",
	.summary = "List a folder",
	.params = "folder detail",
	.ok = {{200, JSON, "FileList", "What is in the folder.", NULL}},
	.errors = WORK},
    {.at = "GET " SB "/files/archive",
	.id = "readArchive",
	.tag = "Files",
	.summary = "Read a file or folder as a tar",
	.doc = "Format pax, not compressed.",
	.params = "tree detail",
	.ok = {{200, "application/x-tar", NULL, "The tar.", NULL}},
	.errors = WORK " 413"},
    {.at = "PUT " SB "/files/archive",
	.id = "writeArchive",
	.tag = "Files",
	.summary = "Unpack a tar into a folder",
	.doc = "The folder is made; it must be `/workspace` or below it. An archive with entries "
	       "that would leave it, or with devices, is `400` and nothing of it is written.",
	.params = "tree detail",
	.raw = "A tar, not compressed.",
	.raw_type = "application/x-tar",
	.ok = {{200, JSON, "Unpacked", "What was unpacked, and where.", NULL}},
	.errors = WORK},
    {.at = "POST " SB "/snapshots",
	.id = "createSnapshot",
	.tag = "Snapshots",
	.summary = "Remember the workspace as it is now",
	.doc = "One moment of `/workspace`: files, folders, links, modes, times, extended "
	       "attributes. Processes and memory are not part of it. It outlives its sandbox.",
	.params = "detail",
	.body = "SnapshotCreate",
	.examples = "'named': {'name': 'before the change'}, 'nameless': {}",
	.ok = {{201, JSON, "Snapshot", "The new snapshot.", NULL}},
	.errors = WORK,
	.links = "getSnapshot forkSnapshot deleteSnapshot"},
    {.at = "POST " SB "/rollback",
	.id = "rollbackSandbox",
	.tag = "Snapshots",
	.summary = "Put a snapshot's workspace back",
	.doc =
	    "Exactly that tree: every process is ended and `/tmp` cleared. The sandbox keeps its "
	    "id, limits and end. One that fails leaves everything as it was.",
	.params = "detail",
	.body = "Rollback",
	.examples = "'to': {'snapshot_id': 'snap_0d1e2f3a4b5c6d7e'}",
	.ok = {{200, JSON, "Sandbox", "The sandbox, with that workspace.", NULL}},
	.errors = WORK},
    {.at = "GET /v1/snapshots",
	.id = "listSnapshots",
	.tag = "Snapshots",
	.summary = "List snapshots",
	.doc = "Oldest first.",
	.params = "of_sandbox limit cursor",
	.ok = {{200, JSON, "SnapshotList", "The snapshots.", NULL}}},
    {.at = "GET " SNAP,
	.id = "getSnapshot",
	.tag = "Snapshots",
	.summary = "Show a snapshot",
	.ok = {{200, JSON, "Snapshot", "The snapshot.", NULL}},
	.errors = "404"},
    {.at = "DELETE " SNAP,
	.id = "deleteSnapshot",
	.tag = "Snapshots",
	.summary = "Forget a snapshot",
	.doc = "Sandboxes that came from it stay as they are.",
	.ok = {{204, NULL, NULL, "It is gone.", NULL}},
	.errors = "404 409 502 507"},
    {.at = "POST " SNAP "/fork",
	.id = "forkSnapshot",
	.tag = "Snapshots",
	.summary = "Make a sandbox that begins with a snapshot's workspace",
	.doc = "Image, environment, labels, limits and network are those of the sandbox of which "
	       "the snapshot was made, unless given.",
	.params = "Idempotency-Key",
	.body = "Fork",
	.examples = "'the same': {}, 'larger': {'memory_mb': 1024, 'timeout_seconds': 600}",
	.ok = {{201, JSON, "Sandbox", "The new sandbox.", NULL}},
	.errors = "404 409 429 502 507",
	.links = "getSandbox execCommand listFiles deleteSandbox"},
    {.at = "GET /openapi.json",
	.id = "getDescription",
	.tag = "Pages",
	.summary = "This document",
	.doc = "With `AGENT_SANDBOX_DOCS=false` this and the pages are `404`.",
	.params = "If-None-Match",
	.ok = {{200, JSON, "Document", "An OpenAPI 3.1 document.", "ETag"},
	    {304, NULL, NULL, "The client has it already.", "ETag"}},
	.errors = "404"},
    {.at = "GET /docs",
	.id = "getDocsPage",
	.tag = "Pages",
	.summary = "This API to read and to try",
	.params = "If-None-Match",
	.ok = {{200, HTML, NULL, "A page for a browser.", "ETag"},
	    {304, NULL, NULL, "The client has it already.", "ETag"}},
	.errors = "404"},
    {.at = "GET /console",
	.id = "getConsolePage",
	.tag = "Pages",
	.summary = "Sandboxes, commands, files and snapshots in a browser",
	.params = "If-None-Match",
	.ok = {{200, HTML, NULL, "A page for a browser.", "ETag"},
	    {304, NULL, NULL, "The client has it already.", "ETag"}},
	.errors = "404"},
    {.at = "GET /assets/{name}",
	.id = "getAsset",
	.tag = "Pages",
	.summary = "What the pages load",
	.params = "If-None-Match",
	.ok = {{200, "*/*", NULL, "A script, a style sheet or a picture.", "ETag"},
	    {304, NULL, NULL, "The client has it already.", "ETag"}},
	.errors = "404"},
};

const size_t noperations = LENGTH(operations);
