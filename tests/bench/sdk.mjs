// sdk.mjs SANDBOX ROUNDS COUNT: seconds of exec(["true"]) over node:http and through the SDK, a few of each in turn, as JSON.
import http from "node:http";
import { SandboxClient } from "../../build/clients/typescript/dist/node.js";

const [id, rounds, count] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const url = process.env.AGENT_SANDBOX_URL;
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const body = JSON.stringify({ command: ["true"] });
const headers = { "X-API-Key": process.env.AGENT_SANDBOX_API_KEY, "Content-Type": "application/json", "Content-Length": body.length };

function raw() {
  return new Promise((resolve, reject) => {
    const request = http.request(`${url}/v1/sandboxes/${id}/exec`, { method: "POST", agent, headers }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => (answer.statusCode === 200 ? resolve(JSON.parse(Buffer.concat(parts))) : reject(new Error(answer.statusCode))));
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function timed(call) {
  const began = performance.now();
  await call();
  return (performance.now() - began) / 1000;
}

const sandbox = await new SandboxClient().get(id);
const sdk = () => sandbox.exec(["true"]);
const out = { raw: [], sdk: [] };
for (let i = 0; i < 20; i++) await raw().then(sdk); // until the compiler has seen both
for (let round = 0; round < rounds; round++) {
  for (let i = 0; i < count; i++) out.raw.push(await timed(raw));
  for (let i = 0; i < count; i++) out.sdk.push(await timed(sdk));
}
console.log(JSON.stringify(out));
process.exit(0);
