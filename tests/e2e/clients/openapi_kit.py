"""The description of the API as the tests use it: which operation a request is, and whether an answer keeps to what it says."""

import copy
import json
import re

import jsonschema
from harness import BUILD, ROOT

DOCUMENT = BUILD / "gen/openapi.json"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Any of these may answer any request, so that no test has to bring about each of them on each route.
ANYWHERE = {"400", "403", "414", "417", "422", "431", "500", "501", "503", "505"}


def load():
    return json.loads(DOCUMENT.read_text())


def operations(document):
    """(method, pattern, operation)"""
    return [(m, path, op) for path, item in document["paths"].items() for m, op in item.items() if m in METHODS]


def resolve(document, node):
    while "$ref" in node:
        found = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def routes():
    """Method and pattern of each row in apid's table."""
    source = (ROOT / "apid/routes.h").read_text()
    defines = dict(re.findall(r'^#define (\w+_PATH) "(.*)"$', source, re.M))
    found = []
    for method, pattern in re.findall(r"X\((\w+), \w+, \w+, \w+, ([^,]+), \w+\)", source):
        found.append((method, "".join(defines.get(part, part.strip('"')) for part in pattern.split())))
    return found


class Contract:
    """Judges answers. Every object is taken as closed: what the server sends and the document does not know is a fault."""

    def __init__(self, document):
        self.document, self.seen = document, set()
        self.strict = copy.deepcopy(document)
        for name, schema in self.strict["components"]["schemas"].items():
            if "properties" in schema and name != "Document":
                schema["additionalProperties"] = False

    def operation(self, method, path):
        """An exact path before one with parameters, as the server's table has them."""
        path = path.partition("?")[0]
        for pattern, item in sorted(self.document["paths"].items(), key=lambda p: "{" in p[0]):
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
                return pattern, item[method.lower()]
        raise AssertionError(f"no path for {path}")

    def valid(self, schema, value):
        jsonschema.Draft202012Validator(schema | {"components": self.strict["components"]}).validate(value)

    def headers(self, described, answer):
        for name, header in described.items():
            header = resolve(self.document, header)
            if name in answer.headers:
                value = answer.headers[name]
                self.valid(header["schema"], int(value) if header["schema"]["type"] == "integer" else value)
            else:
                assert not header["required"], f"the header {name} is missing"

    def judge(self, answer, detail=False):
        """The answer of a requests call; returns it."""
        method, path = answer.request.method, answer.request.path_url
        pattern, op = self.operation(method, path)
        status = str(answer.status_code)
        assert status in op["responses"], f"{method} {pattern} may not answer {status}: {answer.text[:300]}"
        self.seen.add((method, pattern, status))
        said = resolve(self.document, op["responses"][status])
        self.headers(said.get("headers", {}), answer)
        if "content" not in said:
            assert answer.content == b""
            return answer
        (kind, content), got = next(iter(said["content"].items())), answer.headers["Content-Type"]
        assert got == kind or kind == "*/*", f"{got}, not {kind}"
        if kind == "application/json":
            value = answer.json()
            self.valid(content["schema"], value)
            if answer.status_code >= 400:
                code = op["responses"][status]["$ref"].rsplit("/", 1)[1]
                assert value["error"]["code"] == code
            elif not detail and path != "/v1/run":
                assert not ({"oom_killed", "usage", "signal", "omitted_bytes"} & set(value))
        elif kind == "application/x-ndjson":
            for line in answer.content.decode().splitlines():
                self.valid(content["schema"], json.loads(line))
        return answer
