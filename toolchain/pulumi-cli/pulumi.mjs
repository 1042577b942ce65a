#!/usr/bin/env node
// `npx pulumi` in this checkout: the engine that the toolchain found or made, with this project's backend. Plain
// JavaScript, since npx may start it with a Node.js that does not run TypeScript.
import path from "node:path";
import { fileURLToPath } from "node:url";
import { ensurePackages, handOver } from "../bootstrap.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
await ensurePackages();
process.exitCode = await handOver([path.join(here, "main.ts"), ...process.argv.slice(2)]);
