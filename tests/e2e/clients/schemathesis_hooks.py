"""What schemathesis has to be told of this API: bytes that are not JSON, and what OpenAPI has no words for."""

import ast
import base64
import json
import threading
import uuid

import schemathesis
from schemathesis.core.parameters import ParameterLocation

# Python 3.11 counts the depth of what it parses for all threads together: two that parse at once stumble over each other.
_lock, _parse = threading.Lock(), ast.parse


def parse_alone(*args, **kw):
    with _lock:
        return _parse(*args, **kw)


ast.parse = parse_alone

# What the document's example of a path is replaced by where a file has to be there.
PATHS = {"readFile": "/etc/passwd", "readArchive": "/etc/apt"}
REQUEST = base64.urlsafe_b64encode(json.dumps({"command": ["sha256sum"]}).encode()).decode()


@schemathesis.serializer("application/x-tar")
def tar(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/octet-stream", "application/x-tar")
def as_it_is(ctx, response):
    return response.content.decode("latin-1")


@schemathesis.deserializer("application/x-ndjson")
def last_line(ctx, response):
    """The schema is that of a line: the last one here, when all of them are JSON."""
    return [json.loads(line) for line in response.content.decode().splitlines()][-1]


@schemathesis.hook
def map_case(context, case):
    """What ?request= holds is described by contentSchema, which is not used for making values. Most requests have neither an
    Idempotency-Key that was used before nor the path of a file that is missing."""
    if "request" in (case.query or {}) and case.meta and not case.meta.is_negative_at(ParameterLocation.QUERY):
        case.query["request"] = REQUEST
    if "Idempotency-Key" in (case.headers or {}) and case.meta and not case.meta.is_negative_at(ParameterLocation.HEADER):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    path = PATHS.get(case.operation.definition.raw.get("operationId"))
    if path and (case.query or {}).get("path") == "notes/todo.txt":
        case.query["path"] = path
    return case


@schemathesis.hook
def filter_case(context, case):
    """With ?request= any body, or none, is the command's input; without it only JSON is a request. OpenAPI cannot say it."""
    if case.operation.definition.raw.get("operationId") != "streamCommand":
        return True
    if "request" in (case.query or {}):
        return case.media_type == "application/octet-stream"
    return case.media_type != "application/octet-stream"
