/**
 * The command table.
 *
 * To add a command: write an entry in the file of its group and list that file's table in `commands/index.ts`:
 *
 *     export const zoneCommands: CommandTable = {
 *       addShardToZone: {
 *         adminOnly: true,
 *         requires: (ctx) => [{ resource: { db: "config", collection: "shards" }, actions: ["update"] }],
 *         handler: async (ctx) => {
 *           await ctx.router.config.run(ctx, "admin", {
 *             _configsvrAddShardToZone: ctx.body.string("addShardToZone"),
 *             zone: ctx.body.find("zone"),
 *             writeConcern: { w: "majority" },
 *           });
 *           return {};                                     // `ok: 1` is added
 *         },
 *       },
 *     };
 *
 * Refuse with `throw new CommandError(errorCode.ShardNotFound, "message")`. A server's own refusal is thrown by `run` as a
 * CommandError that passes on every field of its reply. Fields of `ctx.body` are read with `.string(name)`, `.number(name)`,
 * `.bool(name)`, `.doc(name)`, `.array(name)`, `.find(name)` (raw value of any type), `.js()` (decoded object).
 * What `ctx.router` offers is described in `router.ts`.
 */
import type { CommandContext, Reply } from "../context.ts";

/** Which part of the data a privilege is about, as in `usersInfo {showPrivileges: true}`. */
export type Resource =
  | { readonly db: string; readonly collection: string }
  | { readonly cluster: true }
  | { readonly anyResource: true };

/** Actions on one resource that a command needs; all of them. */
export interface Privilege {
  readonly resource: Resource;
  readonly actions: readonly string[];
  /** Privileges that do as well, instead of this one; all of them. */
  readonly or?: readonly Privilege[];
}

/**
 * Who may run a command: `public` before login as well (hello, sasl*), `authenticated` after any login, or the privileges
 * that this very command needs.
 */
export type Requirement = "public" | "authenticated" | ((ctx: CommandContext) => readonly Privilege[]);

export interface CommandDefinition {
  readonly handler: (ctx: CommandContext) => Promise<Reply>;
  readonly requires: Requirement;
  /** Other names of the same command. */
  readonly aliases?: readonly string[];
  /** Refused outside database admin: Unauthorized (13), "x may only be run against the admin database." */
  readonly adminOnly?: boolean;
  /** May run inside a multi-document transaction; without it OperationNotSupportedInTransaction (263). */
  readonly inTransaction?: boolean;
  /** Takes `writeConcern`. */
  readonly write?: boolean;
  /** Takes `readConcern`. */
  readonly read?: boolean;
}

export type CommandTable = Readonly<Record<string, CommandDefinition>>;

/**
 * Enforces privileges: resolves when the client may run the command, throws CommandError 13 (Unauthorized) otherwise.
 * Installed with `router.setPrivilegeCheck`; until then every logged-in user may do everything.
 */
export type PrivilegeCheck = (ctx: CommandContext, required: readonly Privilege[]) => Promise<void>;

/** Finds commands by name or alias. */
export class CommandRegistry {
  readonly #byName = new Map<string, { name: string; definition: CommandDefinition }>();
  readonly #names: string[] = [];

  constructor(...tables: CommandTable[]) {
    for (const table of tables)
      for (const [name, definition] of Object.entries(table)) {
        this.#names.push(name);
        for (const known of [name, ...(definition.aliases ?? [])]) {
          if (this.#byName.has(known)) throw new Error(`command ${known} is registered twice`);
          this.#byName.set(known, { name, definition });
        }
      }
  }

  find(name: string): { name: string; definition: CommandDefinition } | undefined {
    return this.#byName.get(name);
  }

  /** Names without aliases, sorted. */
  names(): readonly string[] {
    return [...this.#names].sort();
  }
}
