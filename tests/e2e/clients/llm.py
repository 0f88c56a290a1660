"""A model on loopback for agent loops: it speaks the protocols of OpenAI's chat completions and Anthropic's messages, asks for the
tools that it was offered in a fixed order, and answers with what the tools said. It refuses what the real services refuse."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jsonschema import validate

KEY = "key-of-the-scripted-model"
# What it wants to have run, by the name of the parameter that a tool offers for it.
WANTS = {
    "command": "python3 -c 'print(sum(n for n in range(1000) if n % 3 == 0 or n % 5 == 0))'",
    "code": "print(sum(n for n in range(1000) if n % 3 == 0 or n % 5 == 0))",
}


class Refused(Exception):
    """A request that the real service would not take."""


def need(holds, text):
    if not holds:
        raise Refused(text)


class ScriptedModel:
    def __init__(self):
        self.forget()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    status, answer = 200, outer.answer(self.path.split("?")[0], self.headers, body)
                except Exception as exc:
                    outer.refused.append(f"{type(exc).__name__}: {exc}")
                    status, answer = 400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(exc)}}
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def forget(self):
        self.refused, self.asked, self.finished = [], 0, 0

    def check(self):
        """Whoever asked it went on to the end, and it refused nothing."""
        assert not self.refused, self.refused
        assert self.asked == 0 or self.finished > 0, "no agent came to its end"

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, path, headers, body):
        self.asked += 1
        need(isinstance(body.get("model"), str) and body.get("messages"), "model and messages are required")
        need(not body.get("stream"), "streams are not played here")
        if path == "/v1/chat/completions":
            need(headers["Authorization"] == f"Bearer {KEY}", "no key, or a wrong one")
            return self.chat(body)
        need(path == "/v1/messages", f"no such path: {path}")
        need(headers["X-Api-Key"] == KEY or headers["Authorization"] == f"Bearer {KEY}", "no key, or a wrong one")
        need(headers["anthropic-version"], "anthropic-version: header is required")
        return self.messages(body)

    def decide(self, tools, results):
        """tools: name → JSON Schema; results: texts of the tools so far. A call (name, arguments), or a last word."""
        if not results:
            for name, schema in tools.items():
                arguments = {p: WANTS[p] for p in schema["properties"] if p in WANTS}
                if arguments:
                    validate(arguments, schema)
                    return name, arguments
            raise Refused(f"no tool here runs anything: {list(tools)}")
        said = results[-1]
        if "final_answer" in tools:
            if len(results) > 1:
                raise Refused("called again after the final answer")
            return "final_answer", {"answer": self.last_word(said)}
        return None, self.last_word(said)

    def last_word(self, said):
        numbers = "".join(c if c.isdigit() else " " for c in said).split()
        need("233168" in numbers, f"the tool did not say it: {said!r}")
        self.finished += 1
        return "The sum is 233168."

    def chat(self, body):
        tools, open_calls, results = {}, {}, []
        for t in body.get("tools", []):
            need(t["type"] == "function" and t["function"]["name"], "tools: type and name")
            tools[t["function"]["name"]] = t["function"]["parameters"]
        for m in body["messages"]:
            if m["role"] == "tool":
                need(open_calls.pop(m["tool_call_id"], None), "a tool message must follow the call that it answers")
                results.append(text_of(m["content"]))
                continue
            need(not open_calls, "every tool call needs its answer")
            need(m["role"] in ("system", "developer", "user", "assistant"), f"role {m['role']}")
            need(m.get("content") is not None or m.get("tool_calls"), "content is missing")
            open_calls = {c["id"]: c for c in m.get("tool_calls") or []}
            need(m["role"] == "assistant" or not open_calls, "only the assistant calls tools")
            if m["role"] == "user" and text_of(m["content"]).startswith("Observation:"):
                results.append(text_of(m["content"]))  # smolagents plays tool messages as a user's
        name, what = self.decide(tools, results)
        message = {"role": "assistant", "content": None if name else what}
        if name:
            call = {"id": f"call_{self.asked}", "type": "function", "function": {"name": name, "arguments": json.dumps(what)}}
            message["tool_calls"] = [call]
        return {
            "id": f"chatcmpl-{self.asked}", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if name else "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
        }  # fmt: skip

    def messages(self, body):
        need(isinstance(body.get("max_tokens"), int), "max_tokens: field required")
        tools = {t["name"]: t["input_schema"] for t in body.get("tools", [])}
        results, uses = [], []
        for i, m in enumerate(body["messages"]):
            need(m["role"] == ("assistant" if i % 2 else "user"), "roles must alternate")
            blocks = [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]
            need(blocks, "content is empty")
            answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
            need(sorted(answered) == sorted(uses), "each tool_use needs its tool_result in the next message")
            results += [text_of(b["content"]) for b in blocks if b["type"] == "tool_result"]
            uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
        name, what = self.decide(tools, results)
        block = {"type": "tool_use", "id": f"toolu_{self.asked}", "name": name, "input": what} if name else {"type": "text", "text": what}
        return {
            "id": f"msg_{self.asked}", "type": "message", "role": "assistant", "model": body["model"], "content": [block],
            "stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }  # fmt: skip


def text_of(content):
    return content if isinstance(content, str) else "".join(b["text"] for b in content)
