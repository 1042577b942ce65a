/** The privilege table seen from the command table. */
import { bsonType } from "../bson/document.ts";
import type { Requirement } from "../commands/registry.ts";
import type { CommandContext } from "../context.ts";
import { type Asked, namedPrincipals, onDatabase, privilegeTable, updateUserPrivileges } from "./privileges.ts";

export function askedBy(ctx: CommandContext): Asked {
  const first = ctx.body.first();
  return { db: ctx.db, body: ctx.body, target: first?.type === bsonType.string ? first.text() : "" };
}

function isLoggedInAs(ctx: CommandContext, user: string, db: string): boolean {
  return [...ctx.client.users.values()].some((one) => one.user === user && one.db === db);
}

/** Commands whose privileges depend on who asks. */
const personal: Readonly<Record<string, Requirement>> = {
  updateUser: (ctx) => {
    const asked = askedBy(ctx);
    return updateUserPrivileges(asked, isLoggedInAs(ctx, asked.target, ctx.db));
  },
  // Everybody may see himself; seeing others needs viewUser on their databases.
  usersInfo: (ctx) => {
    const all = ctx.body.doc("usersInfo")?.bool("forAllDBs") === true;
    if (all) return [onDatabase("", "viewUser")];
    const named = namedPrincipals(askedBy(ctx), "user");
    if (named === undefined) return [onDatabase(ctx.db, "viewUser")];
    return named.filter((one) => !isLoggedInAs(ctx, one.name, one.db)).map((one) => onDatabase(one.db, "viewUser"));
  },
  rolesInfo: (ctx) => {
    const named = namedPrincipals(askedBy(ctx), "role");
    return (named ?? [{ db: ctx.db }]).map((one) => onDatabase(one.db, "viewRole"));
  },
};

/** What a command of the tables needs. */
export function requirementOf(name: string): Requirement {
  const known = personal[name];
  if (known !== undefined) return known;
  const entry = privilegeTable[name];
  if (entry === undefined) throw new Error(`Command ${name} is not in the privilege table: add it there.`);
  return (ctx) => entry(askedBy(ctx));
}
