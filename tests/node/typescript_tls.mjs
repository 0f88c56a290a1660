// Lists sandboxes over TLS with the options of the command line, as JSON; what came of it, as JSON: {"ids"} or {"name", "message"}.
// A first word "texts": by the entry that reads no files.
import * as everywhere from "../../build/clients/typescript/dist/index.js";
import * as withFiles from "../../build/clients/typescript/dist/node.js";

const words = process.argv.slice(2);
const sdk = words[0] === "texts" ? everywhere : withFiles;
const options = JSON.parse(words.at(-1));
try {
  const found = await new sdk.SandboxClient(options).listSandboxes();
  console.log(JSON.stringify({ ids: found.map((sandbox) => sandbox.id) }));
} catch (error) {
  console.log(JSON.stringify({ name: error.name, message: error.message }));
}
