"""The description of the API is valid, tells of every route and of nothing else, and docs/API.md says the same."""

import json
import re
import subprocess

import jsonschema
import openapi_kit
import openapi_spec_validator
import pytest
from harness import BUILD, ROOT

PAGE = (ROOT / "docs/API.md").read_text()
DOCUMENT = openapi_kit.load()
SCHEMAS = DOCUMENT["components"]["schemas"]


def refs(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for name, v in node.items():
            if name == "mapping":
                yield from v.values()
            yield from refs(v)
    elif isinstance(node, list):
        for v in node:
            yield from refs(v)


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def fields_table(text):
    """The rows of the first table whose head is "field"."""
    table = text.split("| field | value | if not given |\n")[1].split("\n\n")[0]
    return {name: (value, default) for name, value, default in re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", table, re.M)}


def test_it_is_valid_openapi_3_1():
    assert DOCUMENT["openapi"].startswith("3.1.")
    openapi_spec_validator.validate(DOCUMENT)


def test_every_schema_in_it_is_a_json_schema():
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere_and_every_component_is_used():
    used = set(refs(DOCUMENT))
    for ref in used:
        openapi_kit.resolve(DOCUMENT, {"$ref": ref})
    for kind, things in DOCUMENT["components"].items():
        for name in things:
            if kind != "securitySchemes" and (kind, name) != ("responses", "method_not_allowed"):
                assert f"#/components/{kind}/{name}" in used, (kind, name)


def test_the_same_source_gives_the_same_bytes():
    again = subprocess.run([BUILD / "gen/write-openapi"], capture_output=True, check=True).stdout
    assert again == openapi_kit.DOCUMENT.read_bytes()


@pytest.mark.parametrize(
    "file, old, new, said",
    [
        (
            "apid/routes.h",
            '"/fork", snapshot_fork)',
            '"/fork", snapshot_fork) X(GET, NONE, KEY, READ, "/v1/new", snapshot_get)',
            "operations are described, apid has",
        ),
        ("apid/routes.h", '"/console"', '"/terminal"', "nothing is said about GET /terminal"),
        ("openapi/operations.c", '.at = "GET /docs"', '.at = "GET /healthz"', "GET /healthz is described twice"),
        ("openapi/operations.c", '.body = "Fork",', "", "apid takes another body"),
        ("openapi/operations.c", '"404 409 429 502 507"', '"404 418"', "apid has no status 418"),
        ("openapi/answers.c", "'enum': ['running', 'stopped']", "'enum': ['running'", "expected near"),
    ],
)
def test_tables_that_do_not_fit_stop_the_build(tmp_path, file, old, new, said):
    for folder in ("apid", "openapi", "proto", "common"):
        (tmp_path / folder).mkdir()
        for f in (ROOT / folder).glob("*.[ch]"):
            (tmp_path / folder / f.name).write_text(f.read_text())
    text = (tmp_path / file).read_text()
    assert text.count(old) == 1
    (tmp_path / file).write_text(text.replace(old, new))
    sources = [str(f) for f in sorted((tmp_path / "openapi").glob("*.c"))]
    cc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O0", '-DVERSION="0"', f"-I{tmp_path}", "-o", tmp_path / "write", *sources, "-ljansson"]
    subprocess.run(cc, check=True)
    p = subprocess.run([tmp_path / "write"], capture_output=True, text=True)
    assert p.returncode == 1 and said in p.stderr and p.stderr.count("\n") == 1 and p.stdout == "", p.stderr


def test_every_route_of_the_server_is_in_it_and_no_other():
    told = {(m.upper(), path) for m, path, _ in openapi_kit.operations(DOCUMENT)}
    assert len(told) > 15 and told == set(openapi_kit.routes())


def test_operations_have_an_id_a_tag_and_a_summary_of_their_own():
    every = [op for _, _, op in openapi_kit.operations(DOCUMENT)]
    tags = {t["name"] for t in DOCUMENT["tags"]}
    for key in ("operationId", "summary"):
        assert len({op[key] for op in every}) == len(every)
    for op in every:
        assert re.fullmatch(r"[a-z]+[A-Za-z]+", op["operationId"]) and set(op["tags"]) <= tags and len(op["tags"]) == 1
    assert {t for op in every for t in op["tags"]} == tags
    links = [
        link["operationId"]
        for _, _, op in openapi_kit.operations(DOCUMENT)
        for r in op["responses"].values()
        for link in r.get("links", {}).values()
    ]
    assert links and set(links) <= {op["operationId"] for op in every}


def test_path_parameters_are_named_as_clients_expect_them():
    names = {name for path in DOCUMENT["paths"] for name in re.findall(r"\{(\w+)\}", path)}
    assert names == {"sandbox_id", "snapshot_id", "name"}
    for _, path, op in openapi_kit.operations(DOCUMENT):
        given = [openapi_kit.resolve(DOCUMENT, p) for p in op.get("parameters", [])]
        assert {p["name"] for p in given if p["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path))


def test_both_security_schemes_open_every_route_below_v1_and_metrics_and_nothing_else_needs_one():
    assert set(DOCUMENT["components"]["securitySchemes"]) == {"HTTPBearer", "APIKeyHeader"}
    assert DOCUMENT["security"] == [{"HTTPBearer": []}, {"APIKeyHeader": []}]
    for _, path, op in openapi_kit.operations(DOCUMENT):
        assert op.get("security", DOCUMENT["security"]) == (DOCUMENT["security"] if path.startswith(("/v1/", "/metrics")) else [])
        assert ("401" in op["responses"]) == path.startswith(("/v1/", "/metrics"))


def test_every_operation_says_what_any_request_may_get():
    for _, path, op in openapi_kit.operations(DOCUMENT):
        assert set(op["responses"]) > openapi_kit.ANYWHERE, path
        content = op.get("requestBody", {}).get("content", {})
        assert not content or "413" in op["responses"], path
        assert ("application/json" in content) == ("415" in op["responses"]), path
        assert ("410" in op["responses"]) == ("{sandbox_id}" in path) and ("404" in op["responses"]) >= ("{" in path), path


def test_every_example_keeps_to_its_schema():
    contract = openapi_kit.Contract(DOCUMENT)
    seen = 0
    for _, path, op in openapi_kit.operations(DOCUMENT):
        bodies = [(path, c) for c in op.get("requestBody", {}).get("content", {}).values()]
        for answer in op["responses"].values():
            bodies += [(path, c) for c in openapi_kit.resolve(DOCUMENT, answer).get("content", {}).values()]
        for where, content in bodies:
            examples = [e["value"] for e in content.get("examples", {}).values()] + ([content["example"]] if "example" in content else [])
            for example in examples:
                contract.valid(content["schema"], example)
                seen += 1
            assert examples or "application/json" not in str(content) or "Document" in str(content), where
    for p in DOCUMENT["components"]["parameters"].values():
        if "example" in p:
            contract.valid(p["schema"], p["example"])
            seen += 1
    for schema in [*SCHEMAS.values(), *(p for s in SCHEMAS.values() for p in s.get("properties", {}).values())]:
        for example in schema.get("examples", []):
            contract.valid(schema, example)
            seen += 1
        if "default" in schema:
            contract.valid(schema, schema["default"])
    assert seen > 60


def test_no_key_and_no_place_of_this_machine_is_in_it():
    text = openapi_kit.DOCUMENT.read_text()
    assert f"{ROOT}/" not in text and "/home/" not in text and "/root" not in text


def test_defaults_and_bounds_are_those_of_the_settings():
    rows = {}
    for key, kind, default, high in re.findall(
        r'X\((\w+), (\w+), "([^"]*)",\s*\d+,\s*(\d+),', (ROOT / "proto/config.h").read_text().replace("\\\n", "")
    ):
        scale = 10**9 if kind == "DEC" else 1
        rows["AGENT_SANDBOX_" + key] = default if kind == "STR" else float(default if kind != "BOOL" else 0), int(high) / scale
    checked = 0
    for schema in SCHEMAS.values():
        for p in schema.get("properties", {}).values():
            for name in re.findall(r"Not given: the server's `(\w+)`", p.get("description", "")):
                assert p["default"] == rows[name][0], name
                checked += 1
            for name in re.findall(r"More than the server's `(\w+)`", p.get("description", "")):
                assert p["maximum"] == rows[name][1], name
                checked += 1
    assert checked > 10


# docs/API.md


def test_api_md_has_every_route_and_no_other():
    told = {(m, p.partition("?")[0]) for m, p in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`\s]*)`", PAGE)}
    assert told == {(m, re.sub(r"\{\w+_id\}", "{id}", path)) for m, path in openapi_kit.routes()}


def test_api_md_says_the_same_of_every_error():
    told = re.findall(r"^\| (\d{3}) \| `(\w+)` \| (.*) \|$", section("Errors"), re.M)
    errors = DOCUMENT["components"]["responses"]
    assert len(told) > 15 and [code for _, code, _ in told] == list(errors)
    assert [code for _, code, _ in told] == SCHEMAS["Error"]["properties"]["error"]["properties"]["code"]["enum"]
    for status, code, meaning in told:
        assert errors[code]["description"].partition(": ")[2] == meaning + ".", code
        for _, path, op in openapi_kit.operations(DOCUMENT):
            for s, answer in op["responses"].items():
                if answer.get("$ref", "").endswith("/" + code):
                    assert s == status, (path, s, code)


@pytest.mark.parametrize("title, name", [("Sandboxes", "SandboxCreate"), ("Running commands", "ExecRequest")])
def test_api_md_has_the_fields_of_bodies(title, name):
    told, schema = fields_table(section(title)), SCHEMAS[name]
    assert list(told) == list(schema["properties"])
    for field, (value, default) in told.items():
        p = schema["properties"][field]
        assert (default == "required") == (field in schema.get("required", []))
        setting = re.search(r"Not given: the server's `(\w+)`", p["description"])
        if setting:
            assert default == f"`{setting[1]}`", field
        elif "default" in p:
            assert default == f"`{json.dumps(p['default'])}`".replace('"', ""), field
        if "minimum" in p:
            assert f"from {p['minimum']}" in value, field
        assert str(p.get("maxProperties", "")) in value, field


def test_api_md_has_the_fields_of_small_bodies():
    rows = {path: text for path, text in re.findall(r"^\| `POST (/[^`]*)` \| (.*) \|$", PAGE, re.M)}
    for path, name in (("/v1/snapshots/{id}/fork", "Fork"), ("/v1/sandboxes/{id}/rollback", "Rollback")):
        assert set(re.findall(r'[`"]([a-z]\w+)[`"]', rows[path])) == set(SCHEMAS[name]["properties"]), path
    for path, name in (("/v1/sandboxes/{id}/timeout", "SandboxTimeout"), ("/v1/sandboxes/{id}/snapshots", "SnapshotCreate")):
        assert re.findall(r'"(\w+)":', rows[path]) == list(SCHEMAS[name]["properties"]), path


def test_examples_of_api_md_are_answers_of_the_document():
    """Each has exactly the fields of one schema, and each of these schemas has an example."""
    closed = {n: s for n, s in SCHEMAS.items() if s.get("type") == "object" and "Request" not in n and n not in ("Document", "Usage")}
    shown, contract = set(), openapi_kit.Contract(DOCUMENT)
    for fence in re.findall(r"```json\n(.*?)```", PAGE, re.S):
        lines = fence.splitlines() if fence.count('{"type"') > 1 else [fence]
        for line in lines:
            value = json.loads(line.replace('"..."', '"' + "0" * 64 + '"'))
            fits = [n for n, s in closed.items() if set(s.get("required", [])) == set(value)]
            for name in fits:
                try:
                    contract.valid(closed[name], value)
                    shown.add(name)
                    break
                except jsonschema.ValidationError:
                    continue
            else:
                raise AssertionError(f"no schema has the fields of {line}")
    assert shown == {
        "Health",
        "ShortHealth",
        "Sandbox",
        "ExecResult",
        "OutputEvent",
        "ExitEvent",
        "FileInfo",
        "Snapshot",
        "RunResult",
        "Error",
    }


def test_parameters_are_those_that_the_server_reads_and_api_md_names():
    source = "".join(p.read_text() for p in sorted((ROOT / "apid").glob("*.c")))
    read = set(re.findall(r'(?:query_get\(r->query|req_query_bool\(r|query_word\(r), "(\w+)"', source))
    every = [openapi_kit.resolve(DOCUMENT, p) for p in DOCUMENT["components"]["parameters"].values()]
    queries = {p["name"] for p in every if p["in"] == "query"}
    assert len(read) > 8 and queries == read
    for name in queries:
        assert re.search(rf"[?&`]{name}[`=]", PAGE), name
    fields = set(re.search(r"field_names\[FIELDS\] = \{(.*?)\}", source, re.S)[1].replace('"', "").replace("\n", " ").split(", "))
    headers = {p["name"].lower() for p in every if p["in"] == "header"}
    assert headers < {f.strip() for f in fields}
    for p in every:
        if p["in"] == "header":
            assert f"`{p['name']}`" in PAGE, p["name"]


def test_the_command_and_the_build_have_the_same_document(tmp_path):
    program, wanted = BUILD / "agent-sandbox", openapi_kit.DOCUMENT.read_bytes()
    assert subprocess.run([program, "openapi"], capture_output=True, check=True).stdout == wanted
    file = tmp_path / "api.json"
    for _ in range(2):  # the second time it is there
        subprocess.run([program, "openapi", "-o", file], check=True)
        assert file.read_bytes() == wanted
        file.write_text("old")
    p = subprocess.run([program, "openapi", "-o", tmp_path / "missing/api.json"], capture_output=True, text=True)
    assert p.returncode == 1 and p.stderr.count("\n") == 1 and "missing/api.json" in p.stderr
    with open("/dev/full", "w") as full:
        p = subprocess.run([program, "openapi"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 1 and p.stderr.count("\n") == 1
    assert [f.name for f in tmp_path.iterdir()] == ["api.json"]
