/** All commands: one line per group. */
import { administrationCommands } from "./administration.ts";
import { aggregateCommands } from "./aggregate.ts";
import { authenticationCommands } from "./authentication.ts";
import { findCommands } from "./find.ts";
import { findAndModifyCommands } from "./find-and-modify.ts";
import { CommandRegistry } from "./registry.ts";
import { transactionCommands } from "./transactions.ts";
import { writeCommands } from "./write.ts";

export function allCommands(): CommandRegistry {
  return new CommandRegistry(
    authenticationCommands,
    findCommands,
    findAndModifyCommands,
    aggregateCommands,
    writeCommands,
    transactionCommands,
    ...administrationCommands,
  );
}
