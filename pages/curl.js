// A request as a line for the shell. Pure. The key is never in it: the line has the variable $KEY.

export function quote(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

// An address has no quotes, but it may have variables, which must be seen by the shell.
const address = (url) => (url.includes("$") ? `"${url}"` : quote(url));

// {method, url, key, headers: [[name, value]], json: text, file: name or true, stream}
export function curlLine({ method, url, key, headers = [], json, file, stream }) {
  const words = ["curl", stream ? "-sN" : "-s"];
  if (key) words.push("-H", '"X-API-Key: $KEY"');
  for (const [name, value] of headers) words.push("-H", quote(`${name}: ${value}`));
  const implied = json !== undefined ? "POST" : file ? "PUT" : "GET";
  if (method === "HEAD") words.push("-I");
  else if (method !== implied) words.push("-X", method);
  if (json !== undefined) words.push("--json", quote(json));
  if (file) words.push("-T", quote(file === true ? "FILE" : file));
  words.push(address(url));
  return words.join(" ");
}
