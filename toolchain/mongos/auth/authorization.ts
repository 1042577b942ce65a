/**
 * What the logged-in users of a connection may do: their privileges come from the config servers (`usersInfo` with
 * `showPrivileges`), are kept for a while, and are asked anew when a user changed through this router.
 */
import type { Doc } from "../bson/document.ts";
import { isSaslMember } from "../commands/authentication.ts";
import type { Privilege, PrivilegeCheck } from "../commands/registry.ts";
import type { AuthenticatedUser, CommandContext } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";
import type { Router } from "../router.ts";
import { covers, type Granted } from "./privileges.ts";
import { shellText } from "./shell-text.ts";

/** How long privileges are believed, in milliseconds: a mongos's userCacheInvalidationIntervalSecs is 30 s. */
const BELIEVED_MS = 30_000;

/** What a connection from this machine may do before there is any user: make the first one, and set the cluster up. */
const localhostException: readonly Granted[] = [
  { resource: { db: "admin", collection: "" }, actions: ["createUser", "grantRole"] },
  { resource: { db: "$external", collection: "" }, actions: ["createUser"] },
  { resource: { cluster: true }, actions: ["addShard"] },
];

interface Known {
  readonly at: number;
  readonly user: Promise<Doc | undefined>;
}

/** The users of one router and what they may do. */
class UserCache {
  readonly #router: Router;
  readonly #known = new Map<string, Known>();
  #anyUser = false;

  constructor(router: Router) {
    this.#router = router;
    router.onUsersChanged(() => this.#known.clear());
  }

  /** The user's document of `usersInfo`; undefined when it is gone. */
  user({ user, db }: AuthenticatedUser): Promise<Doc | undefined> {
    const key = `${db}\0${user}`;
    const known = this.#known.get(key);
    if (known !== undefined && performance.now() - known.at < BELIEVED_MS) return known.user;
    // With the config servers out of reach, what was known goes on to hold: a datacenter's loss locks nobody out.
    const found = this.#ask(user, db).catch((error: unknown) => {
      this.#known.delete(key);
      if (known !== undefined) return known.user;
      throw error;
    });
    this.#known.set(key, { at: performance.now(), user: found });
    return found;
  }

  async #ask(user: string, db: string): Promise<Doc | undefined> {
    const reply = await this.#router.config.run(
      this.#router.background(),
      "admin",
      { usersInfo: [{ user, db }], showPrivileges: true },
      { idempotent: true, readPreference: { mode: "primaryPreferred", tags: [] } },
    );
    return reply.docs("users")[0];
  }

  /** Is there any user in the cluster? Once there is, the localhost exception is over for good. */
  async anyUser(): Promise<boolean> {
    if (this.#anyUser) return true;
    const found = await this.#router.config.find(
      this.#router.background(),
      { db: "admin", collection: "system.users" },
      { limit: 1, projection: { _id: 1 } },
    );
    this.#anyUser = found.length > 0;
    return this.#anyUser;
  }
}

const caches = new WeakMap<Router, UserCache>();

function cacheOf(router: Router): UserCache {
  let cache = caches.get(router);
  if (cache === undefined) {
    cache = new UserCache(router);
    caches.set(router, cache);
  }
  return cache;
}

function grantedOf(user: Doc): Granted[] {
  return user.docs("inheritedPrivileges").map((privilege) => {
    const resource = privilege.doc("resource");
    const db = resource?.string("db");
    const collection = resource?.string("collection");
    return {
      resource: {
        ...(db === undefined ? {} : { db }),
        ...(collection === undefined ? {} : { collection }),
        cluster: resource?.bool("cluster") === true,
        anyResource: resource?.bool("anyResource") === true,
      },
      actions: (privilege.array("actions") ?? []).map((action) => action.text()),
    };
  });
}

/** The privileges of everybody who is logged in on a connection. */
export class GrantedPrivileges {
  readonly privileges: readonly Granted[];
  /** Documents of the users, with roles and privileges. */
  readonly users: readonly Doc[];

  /** Everything is allowed: no authentication, or a member of the cluster itself. */
  readonly all: boolean;

  constructor(users: readonly Doc[], more: readonly Granted[] = [], all = false) {
    this.users = users;
    this.all = all;
    this.privileges = [...users.flatMap(grantedOf), ...more];
  }

  covers(required: readonly Privilege[]): boolean {
    return this.all || covers(this.privileges, required);
  }

  /** The error for a command that they do not cover. */
  refusal(ctx: CommandContext): CommandError {
    return new CommandError(
      errorCode.Unauthorized,
      `not authorized on ${ctx.db} to execute command ${shellText(ctx.body)}`,
    );
  }
}

const everything = new GrantedPrivileges([], [{ resource: { anyResource: true }, actions: ["any"] }], true);

export async function grantedTo(ctx: CommandContext): Promise<GrantedPrivileges> {
  if (ctx.router.privilegeCheck === undefined || isSaslMember(ctx.client)) return everything;
  const cache = cacheOf(ctx.router);
  if (ctx.client.users.size === 0)
    return new GrantedPrivileges([], ctx.client.loopback && !(await cache.anyUser()) ? localhostException : []);
  const users = await Promise.all([...ctx.client.users.values()].map((user) => cache.user(user)));
  return new GrantedPrivileges(users.filter((user) => user !== undefined));
}

/** The check that the router runs before each command. */
export const checkPrivileges: PrivilegeCheck = async (ctx, required) => {
  if (required.length === 0 && ctx.client.users.size > 0) return;
  const granted = await grantedTo(ctx);
  if (required.length > 0 && granted.covers(required)) return;
  if (ctx.client.users.size === 0)
    throw new CommandError(errorCode.Unauthorized, `command ${ctx.name} requires authentication`);
  throw granted.refusal(ctx);
};
