/* Writes the description of the API, an OpenAPI 3.1 document, to standard output. Runs while the
 * programs are built; the same tables give the same bytes. */
#include <stdio.h>
#include <string.h>

#include "apid/statuses.h"
#include "openapi/loose.h"
#include "openapi/tables.h"

static json_t *
info(void)
{
	json_t *o = json_object();

	put(o, "title", json_string("agent-sandbox"));
	put(o, "summary", json_string("Disposable sandboxes for AI agents"));
	put(o, "description", json_string(description));
	put(o, "version", json_string(VERSION));
	put(o, "license", json_pack("{ssss}", "name", "ISC", "identifier", "ISC"));
	return o;
}

static json_t *
tags(void)
{
	return loose_value(
	    "[{'name': 'Sandboxes', 'description': 'Make, list, show, renew and end sandboxes.'}, "
	    "{'name': 'Commands', 'description': 'Run commands in a sandbox.'}, "
	    "{'name': 'Files', 'description': 'Move files and folders in and out.'}, "
	    "{'name': 'Snapshots', 'description': 'Remember a workspace, go back, and branch "
	    "off.'}, "
	    "{'name': 'Runs', 'description': 'One program, one answer, nothing left.'}, "
	    "{'name': 'Server', 'description': 'The server itself.'}, "
	    "{'name': 'Pages', 'description': 'This document, and pages for a browser.'}]");
}

static json_t *
security_schemes(void)
{
	return loose_object(
	    "'HTTPBearer': {'type': 'http', 'scheme': 'bearer', 'description': 'An API key. It has "
	    "a tenant, whose sandboxes and snapshots it sees, scopes, and perhaps an end and "
	    "addresses from which it is good. Without a key the client certificate that was shown "
	    "counts, where the server asks for one.'}, "
	    "'APIKeyHeader': {'type': 'apiKey', 'in': 'header', 'name': 'X-API-Key', "
	    "'description': 'The same key, in a header of its own.'}");
}

static json_t *
error_schema(void)
{
	json_t *o = loose_object(
	    "'type': 'object', 'description': 'Why a request was refused.', 'properties': "
	    "{'error': {'type': 'object', 'properties': {'code': {'type': 'string', "
	    "'description': 'For programs.'}, 'message': {'type': 'string', 'minLength': 1, "
	    "'description': 'For people: what is wrong, and what can be done.'}}, 'required': "
	    "['code', 'message'], 'additionalProperties': false}, 'detail': {'type': 'string', "
	    "'description': 'The message again: of the paths of runs.'}}, 'required': ['error'], "
	    "'additionalProperties': false");
	json_t *code = o, *codes = json_array();

	for (int i = 0; i < 4; i++)
		code = json_object_get(
		    code, (const char *const[]){"properties", "error", "properties", "code"}[i]);
#define STATUS_X_CODE(status, reason, code, meaning, example) \
	if (code[0] != '\0')                                  \
		add(codes, json_string(code));
	STATUS_TABLE(STATUS_X_CODE)
	put(code, "enum", codes);
	return o;
}

static json_t *
schemas(void)
{
	json_t *all = json_object();

	bodies_add(all);
	answers_add(all);
	put(all, "ExecEvent",
	    loose_object("'description': 'A line of a stream.', 'oneOf': ["
			 "{'$ref': '#/components/schemas/OutputEvent'}, "
			 "{'$ref': '#/components/schemas/ExitEvent'}, "
			 "{'$ref': '#/components/schemas/ErrorEvent'}], "
			 "'discriminator': {'propertyName': 'type', 'mapping': {"
			 "'stdout': '#/components/schemas/OutputEvent', "
			 "'stderr': '#/components/schemas/OutputEvent', "
			 "'exit': '#/components/schemas/ExitEvent', "
			 "'error': '#/components/schemas/ErrorEvent'}}"));
	put(all, "Document",
	    loose_object("'type': 'object', 'description': 'An OpenAPI document.', 'required': "
			 "['openapi', 'info', 'paths', 'components']"));
	put(all, "Error", error_schema());
	return all;
}

int
main(void)
{
	json_t *document = json_object(), *components = json_object();

	put(document, "openapi", json_string("3.1.0"));
	put(document, "info", info());
	put(document, "servers",
	    loose_value("[{'url': '/', 'description': 'The server that gave this document.'}]"));
	put(document, "security", loose_value("[{'HTTPBearer': []}, {'APIKeyHeader': []}]"));
	put(document, "tags", tags());
	put(document, "paths", paths_all());
	put(components, "schemas", schemas());
	put(components, "responses", errors_all());
	put(components, "parameters", parameters_all());
	put(components, "headers", headers_all());
	put(components, "securitySchemes", security_schemes());
	put(document, "components", components);
	if (json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) == -1 ||
	    putchar('\n') == EOF || fflush(stdout) == EOF)
		wrong("the document cannot be written");
	json_decref(document);
	return 0;
}
