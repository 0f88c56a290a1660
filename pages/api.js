// The way to the server: the key, requests, errors, streams. The key lives in this module's memory and nowhere else.

export const BASE = new URL("..", import.meta.url);

let key = "";
let given = false;
let skew = 0;

// "key" when the key was set, forgotten or refused.
export const session = new EventTarget();

export const hasKey = () => given;
export const keyHeader = () => (key ? { "X-API-Key": key } : {});

// An empty key is for servers that run without authentication.
function setKey(value) {
  key = value;
  given = true;
  session.dispatchEvent(new Event("key"));
}

export function forgetKey(reason = "") {
  key = "";
  given = false;
  session.dispatchEvent(new CustomEvent("key", { detail: reason }));
}

// The server's clock in milliseconds: what is left of a sandbox's time must not depend on this machine's clock.
export const now = () => Date.now() + skew;

export class ApiError extends Error {
  constructor(status, code, message, request = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.request = request;
  }
}

export function url(path, query) {
  const to = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") to.searchParams.set(name, value);
  }
  return to;
}

export function errorFrom(status, text, request) {
  try {
    const { code, message } = JSON.parse(text).error;
    if (typeof code === "string" && typeof message === "string")
      return new ApiError(status, code, message, request);
  } catch {
    // Not this server's words: something in between answered.
  }
  return new ApiError(
    status,
    "not_this_api",
    `The answer (status ${status}) is not one of this server: is there a proxy in between?`,
    request,
  );
}

export function unreachable() {
  return new ApiError(
    0,
    "unreachable",
    `No answer from ${BASE.host}: is the server running, and the connection up?`,
  );
}

function learnClock(response) {
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  // The header has whole seconds: half a second is the best guess, and small differences are no news.
  const off = date + 500 - Date.now();
  if (Math.abs(off - skew) > 1000) skew = Math.abs(off) < 1500 ? 0 : off;
}

// The plain request: the response, whatever its status is.
export async function send(method, path, { query, json, body, headers, signal } = {}) {
  const head = { ...keyHeader(), ...headers };
  let data = body;
  if (json !== undefined) {
    head["Content-Type"] = "application/json";
    data = JSON.stringify(json);
  }
  let response;
  try {
    response = await fetch(url(path, query), {
      method,
      headers: head,
      body: data,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable();
  }
  learnClock(response);
  return response;
}

async function checked(response) {
  if (response.ok) return response;
  const error = errorFrom(
    response.status,
    await response.text().catch(() => ""),
    response.headers.get("X-Request-Id") ?? "",
  );
  if (error.status === 401 && given) forgetKey(error.message);
  throw error;
}

// The response of a request that succeeded; else an ApiError with the server's own words.
export async function request(method, path, options) {
  return checked(await send(method, path, options));
}

// Takes this key if the server does; throws its refusal.
export async function useKey(value) {
  const response = await send("GET", "v1/sandboxes", {
    query: { limit: 1 },
    headers: value ? { "X-API-Key": value } : {},
  });
  if (!response.ok)
    throw errorFrom(response.status, await response.text(), response.headers.get("X-Request-Id") ?? "");
  setKey(value);
}

export async function call(method, path, options) {
  const response = await request(method, path, options);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw errorFrom(response.status, "", "");
  }
}

// An upload that says how far it is: fetch does not know. Resolves to the answer.
export function upload(path, query, body, { signal, progress } = {}) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("PUT", url(path, query));
    for (const [name, value] of Object.entries(keyHeader())) x.setRequestHeader(name, value);
    x.setRequestHeader("Content-Type", "application/octet-stream");
    x.upload.onprogress = (e) => progress?.(e.loaded, e.total);
    x.onload = () => {
      if (x.status >= 200 && x.status < 300) resolve(JSON.parse(x.responseText));
      else reject(errorFrom(x.status, x.responseText, x.getResponseHeader("X-Request-Id") ?? ""));
    };
    x.onerror = () => reject(unreachable());
    x.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal?.addEventListener("abort", () => x.abort());
    x.send(body);
  });
}

const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

// The objects of an application/x-ndjson answer. Lets the page breathe when there is more than it can take.
export async function* ndjson(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let since = performance.now();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = value.split("\n");
      lines[0] = rest + lines[0];
      rest = lines.pop();
      for (const line of lines) if (line !== "") yield JSON.parse(line);
      if (performance.now() - since > 10) {
        await breath();
        since = performance.now();
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
