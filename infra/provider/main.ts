/** The provider plugin `alfabravo`: the engine starts it and speaks to it over loopback. */
import { enableCompileCache } from "node:module";

// Before the imports of the rest: a second start then skips compiling, which is most of the time it takes.
enableCompileCache();

const { ProviderServer } = await import("./server.ts");
const { resources } = await import("./resources/index.ts");
const { default: manifest } = await import("../../package.json", { with: { type: "json" } });

// The engine puts flags before its own address.
const engineAddress = process.argv.slice(2).findLast((argument) => /:\d+$/.test(argument));
const server = new ProviderServer({ version: manifest.version, resources, engineAddress });

async function exit(): Promise<void> {
  await server.close();
  process.exit(0);
}
process.once("SIGINT", exit).once("SIGTERM", exit);

// The engine holds the other end of the standard input and lets go of it when it dies, however it dies. A provider that
// went on alone would change the cluster at the same time as the next engine's.
if (engineAddress !== undefined) process.stdin.once("end", exit).once("error", exit).resume();

console.log(await server.listen());
