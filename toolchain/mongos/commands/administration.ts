/** The administration side of the router: sharding, shards and zones, DDL, users, the server itself. */
import { ddlCommands } from "./ddl.ts";
import { explainCommands } from "./explain.ts";
import type { CommandTable } from "./registry.ts";
import { serverCommands } from "./server.ts";
import { shardingCommands } from "./sharding.ts";
import { shardCommands } from "./shards.ts";
import { userCommands } from "./users.ts";

export const administrationCommands: readonly CommandTable[] = [
  shardingCommands,
  shardCommands,
  ddlCommands,
  userCommands,
  serverCommands,
  explainCommands,
];
