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

/** How long the config servers may take to renew what is known of a user before it goes on to hold, in milliseconds. */
const RENEW_MS = 1_000;

/** A user's document of `usersInfo`, and its privileges. */
interface UserPrivileges {
  readonly doc: Doc;
  readonly granted: readonly Granted[];
}

interface Known {
  readonly at: number;
  readonly user: Promise<UserPrivileges | undefined>;
}

/** The users of one router and what they may do. */
class UserCache {
  readonly #router: Router;
  readonly #known = new Map<string, Known>();

  constructor(router: Router) {
    this.#router = router;
    router.onUsersChanged(() => this.#known.clear());
  }

  /** Undefined when the user is gone. */
  user({ user, db }: AuthenticatedUser): Promise<UserPrivileges | undefined> {
    const key = `${db}\0${user}`;
    const known = this.#known.get(key);
    if (known !== undefined && performance.now() - known.at < BELIEVED_MS) return known.user;
    const fresh = this.#ask(user, db);
    const entry: Known = {
      at: performance.now(),
      // With the config servers out of reach, what was known goes on to hold: a datacenter's loss locks nobody out.
      user: known === undefined ? fresh : orElse(fresh, known.user),
    };
    this.#known.set(key, entry);
    fresh.catch(() => {
      if (known === undefined && this.#known.get(key) === entry) this.#known.delete(key);
    });
    return entry.user;
  }

  async #ask(user: string, db: string): Promise<UserPrivileges | undefined> {
    const reply = await this.#router.config.run(
      this.#router.background(),
      "admin",
      { usersInfo: [{ user, db }], showPrivileges: true },
      { idempotent: true, readPreference: { mode: "primaryPreferred", tags: [] } },
    );
    const doc = reply.docs("users")[0]?.detached();
    return doc === undefined ? undefined : { doc, granted: grantedOf(doc) };
  }
}

/** `fresh`, or `known` when it fails or takes too long. */
function orElse<T>(fresh: Promise<T>, known: Promise<T>): Promise<T> {
  const { promise: late, resolve } = Promise.withResolvers<Promise<T>>();
  const timer = setTimeout(() => resolve(known), RENEW_MS);
  return Promise.race([fresh, late.then((value) => value)])
    .then(
      (value) => value,
      () => known,
    )
    .finally(() => clearTimeout(timer));
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

  constructor(users: readonly UserPrivileges[], all = false) {
    this.users = users.map((user) => user.doc);
    this.privileges = all
      ? [{ resource: { anyResource: true }, actions: ["any"] }]
      : users.flatMap((user) => user.granted);
    this.all = all;
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

const everything = new GrantedPrivileges([], true);

export async function grantedTo(ctx: CommandContext): Promise<GrantedPrivileges> {
  if (ctx.router.privilegeCheck === undefined || isSaslMember(ctx.client)) return everything;
  const cache = cacheOf(ctx.router);
  const users = await Promise.all([...ctx.client.users.values()].map((user) => cache.user(user)));
  return new GrantedPrivileges(users.filter((user) => user !== undefined));
}

/** The check that the router runs before each command of a logged-in client. */
export const checkPrivileges: PrivilegeCheck = async (ctx, required) => {
  if (required.length === 0) return;
  const granted = await grantedTo(ctx);
  if (!granted.covers(required)) throw granted.refusal(ctx);
};
