/** All commands: one line per group. */
import { CommandRegistry } from "./registry.ts";

export function allCommands(): CommandRegistry {
  return new CommandRegistry();
}
