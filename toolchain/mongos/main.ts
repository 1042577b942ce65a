#!/usr/bin/env node
/**
 * A stand-in for mongos: routes commands to the real mongod processes of a sharded cluster. For tests and trials where no
 * mongos can be had; never chosen when there is one.
 */
import { enableCompileCache } from "node:module";

// Compiled code is kept from one start to the next: the import below, which comes after this line, is most of the start.
enableCompileCache();
const { main } = await import("./program.ts");
await main();
