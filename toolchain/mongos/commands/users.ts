/** Users and roles: they live on the config servers, which check and change them. */
import type { Doc } from "../bson/document.ts";
import type { CommandContext } from "../context.ts";
import { governed, majority, passOn } from "./arguments.ts";
import type { CommandDefinition, CommandTable } from "./registry.ts";

async function change(ctx: CommandContext): Promise<Doc> {
  try {
    const command = ctx.command().with({ writeConcern: ctx.writeConcern ?? majority });
    return passOn(await ctx.router.config.run(ctx, ctx.db, command));
  } finally {
    // After an error too: it may have been applied all the same.
    ctx.router.usersChanged();
  }
}

async function ask(ctx: CommandContext): Promise<Doc> {
  return passOn(
    await ctx.router.config.run(ctx, ctx.db, ctx.command(), {
      idempotent: true,
      readPreference: { mode: "primaryPreferred", tags: [] },
    }),
  );
}

const changes = [
  ...["createUser", "updateUser", "dropUser", "dropAllUsersFromDatabase", "grantRolesToUser", "revokeRolesFromUser"],
  ...["createRole", "updateRole", "dropRole", "dropAllRolesFromDatabase", "grantRolesToRole", "revokeRolesFromRole"],
  ...["grantPrivilegesToRole", "revokePrivilegesFromRole"],
];

export const userCommands: CommandTable = {
  ...Object.fromEntries(
    changes.map((name): [string, CommandDefinition] => [name, governed(name, { handler: change, write: true })]),
  ),
  usersInfo: governed("usersInfo", { handler: ask }),
  rolesInfo: governed("rolesInfo", { handler: ask }),
  invalidateUserCache: governed("invalidateUserCache", {
    adminOnly: true,
    handler: async (ctx) => {
      ctx.router.usersChanged();
      return {};
    },
  }),
};
