import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  aggregatePrivileges,
  coveringResources,
  covers,
  type Granted,
  missingActions,
  onAnyDatabase,
  onCluster,
  onCollection,
  onDatabase,
  onNamespace,
  privilegeTable,
  seesDatabase,
  updateUserPrivileges,
  visibleCollections,
} from "../../../toolchain/mongos/auth/privileges.ts";
import { encode, type Fields } from "../../../toolchain/mongos/bson/document.ts";

const grant = (resource: Granted["resource"], ...actions: string[]): Granted => ({ resource, actions });
const everyNormal = grant({ db: "", collection: "" }, "find");

/** A command as the table sees it. */
function asked(db: string, command: Fields) {
  const body = encode(command);
  const first = body.first();
  return { db, body, target: first?.type === 0x02 ? first.text() : "" };
}

describe("resources that cover others", () => {
  const find = (ns: string) => onNamespace(ns, "find");

  test.each([
    ["a privilege on every database covers its collections", everyNormal, find("app.a"), true],
    ["… but not those of config", everyNormal, find("config.chunks"), false],
    ["… nor of local", everyNormal, find("local.oplog.rs"), false],
    ["… nor system collections", everyNormal, find("app.system.users"), false],
    ["… and a database as such", everyNormal, onDatabase("app", "find"), true],
    ["a database covers its collections", grant({ db: "app", collection: "" }, "find"), find("app.a"), true],
    [
      "… config as well, when it is named",
      grant({ db: "config", collection: "" }, "find"),
      find("config.chunks"),
      true,
    ],
    ["… but not its system collections", grant({ db: "app", collection: "" }, "find"), find("app.system.js"), false],
    ["… and no other database", grant({ db: "app", collection: "" }, "find"), find("app2.a"), false],
    ["a collection covers itself", grant({ db: "app", collection: "a" }, "find"), find("app.a"), true],
    ["… and no other", grant({ db: "app", collection: "a" }, "find"), find("app.b"), false],
    ["… and not its database", grant({ db: "app", collection: "a" }, "find"), onDatabase("app", "find"), false],
    ["a collection of any database", grant({ db: "", collection: "a" }, "find"), find("app.a"), true],
    ["… system collections too", grant({ db: "", collection: "system.js" }, "find"), find("app.system.js"), true],
    ["the cluster covers the cluster", grant({ cluster: true }, "find"), onCluster("find"), true],
    ["… and no collection", grant({ cluster: true }, "find"), find("app.a"), false],
    ["databases do not cover the cluster", everyNormal, onCluster("find"), false],
    ["any resource covers all", grant({ anyResource: true }, "find"), find("config.system.x"), true],
    ["another action does not do", grant({ db: "app", collection: "a" }, "insert"), find("app.a"), false],
  ])("%s", (_name, granted, required, covered) => {
    expect(covers([granted], [required])).toBe(covered);
  });

  test("actions add up over resources and privileges", () => {
    const granted = [grant({ db: "app", collection: "" }, "find"), grant({ db: "app", collection: "a" }, "insert")];
    expect(missingActions(granted, onCollection("app", "a", "find", "insert", "remove"))).toEqual(["remove"]);
  });

  test("every required privilege counts, and the other way does as well", () => {
    const both = [onCollection("app", "a", "find"), onCollection("app", "b", "find")];
    expect(covers([grant({ db: "app", collection: "a" }, "find")], both)).toBe(false);
    const either = [{ ...onCluster("enableSharding"), or: [onCollection("config", "shards", "update")] }];
    expect(covers([grant({ cluster: true }, "enableSharding")], either)).toBe(true);
    expect(covers([grant({ db: "config", collection: "shards" }, "update")], either)).toBe(true);
    expect(covers([grant({ db: "config", collection: "tags" }, "update")], either)).toBe(false);
  });

  test("no privileges cover nothing; nothing required is covered by none", () => {
    expect(covers([], [onCluster("listShards")])).toBe(false);
    expect(covers([], [])).toBe(true);
  });

  test("a privilege never covers what it does not name, whatever the names are", () => {
    const word = fc.stringMatching(/^[a-z]{1,6}$/);
    fc.assert(
      fc.property(word, word, word, word, (db, collection, otherDb, other) => {
        fc.pre(db !== otherDb && collection !== other && db !== "config" && db !== "local");
        const exact = [grant({ db, collection }, "find")];
        expect(covers(exact, [onCollection(db, collection, "find")])).toBe(true);
        expect(covers(exact, [onCollection(otherDb, collection, "find")])).toBe(false);
        expect(covers(exact, [onCollection(db, other, "find")])).toBe(false);
        expect(coveringResources({ db, collection })).toContainEqual({ db, collection });
      }),
    );
  });
});

describe("what a user sees", () => {
  const app = grant({ db: "app", collection: "a" }, "find");

  test("databases", () => {
    expect(seesDatabase([app], "app")).toBe(true);
    expect(seesDatabase([app], "other")).toBe(false);
    expect(seesDatabase([everyNormal], "other")).toBe(true);
    expect(seesDatabase([everyNormal], "config")).toBe(false);
    expect(seesDatabase([grant({ db: "app", collection: "a" })], "app")).toBe(false);
    expect(seesDatabase([grant({ cluster: true }, "listShards")], "app")).toBe(false);
    expect(seesDatabase([grant({ anyResource: true }, "x")], "config")).toBe(true);
  });

  test("collections", () => {
    expect(visibleCollections([app], "app")).toEqual(["a"]);
    expect(visibleCollections([app], "other")).toEqual([]);
    expect(visibleCollections([everyNormal], "app")).toBe("all");
    expect(visibleCollections([everyNormal], "config")).toEqual([]);
    expect(visibleCollections([app, grant({ db: "app", collection: "" }, "find")], "app")).toBe("all");
  });
});

describe("what commands ask for", () => {
  const required = (command: string, db: string, body: Fields) => privilegeTable[command]?.(asked(db, body));

  test("zone commands take the cluster's action or those on the metadata", () => {
    const [range] = required("updateZoneKeyRange", "admin", { updateZoneKeyRange: "app.a" }) ?? [];
    expect(range?.actions).toEqual(["enableSharding"]);
    expect(range?.or).toEqual([
      onCollection("config", "shards", "find"),
      onCollection("config", "tags", "find", "update", "remove"),
    ]);
  });

  test("user commands ask on the databases of the roles", () => {
    const command = { createUser: "u", roles: ["read", { role: "root", db: "admin" }] };
    expect(required("createUser", "app", command)).toEqual([
      onDatabase("app", "createUser"),
      onDatabase("app", "grantRole"),
      onDatabase("admin", "grantRole"),
    ]);
  });

  test("privileges on the cluster or on any database are granted on admin", () => {
    const privileges = [
      { resource: { cluster: true }, actions: ["listShards"] },
      { resource: { db: "", collection: "" }, actions: ["find"] },
      { resource: { db: "app", collection: "a" }, actions: ["find"] },
    ];
    expect(required("grantPrivilegesToRole", "admin", { grantPrivilegesToRole: "r", privileges })).toEqual([
      onDatabase("admin", "grantRole"),
      onDatabase("admin", "grantRole"),
      onDatabase("app", "grantRole"),
    ]);
  });

  test("updateUser: one's own password needs less, roles need revokeRole everywhere", () => {
    const change = asked("app", { updateUser: "u", pwd: "x" });
    expect(updateUserPrivileges(change, false)).toEqual([onDatabase("app", "changePassword")]);
    expect(updateUserPrivileges(change, true)[0]?.actions).toEqual(["changeOwnPassword"]);
    const roles = asked("app", { updateUser: "u", roles: ["read"] });
    expect(updateUserPrivileges(roles, true)).toEqual([onAnyDatabase("revokeRole"), onDatabase("app", "grantRole")]);
  });

  test("renaming within a database or between two", () => {
    const rename = (to: string, more: Fields = {}) =>
      required("renameCollection", "admin", { renameCollection: "app.a", to, ...more });
    expect(rename("app.b")?.[0]?.actions).toEqual(["renameCollectionSameDB"]);
    expect(rename("other.b")).toEqual([
      onCollection("app", "a", "find", "dropCollection"),
      onCollection("other", "b", "insert", "createIndex"),
    ]);
    expect(rename("app.b", { dropTarget: true })?.[1]?.actions).toContain("dropCollection");
  });

  test("a view asks for find on what it shows", () => {
    expect(required("create", "app", { create: "v", viewOn: "secret" })).toContainEqual(
      onCollection("app", "secret", "find"),
    );
  });
});

describe("aggregates", () => {
  const required = (...pipeline: Fields[]) => aggregatePrivileges(asked("app", { aggregate: "a", pipeline }));
  const own = onCollection("app", "a", "find");

  test.each<[string, Fields[], ReturnType<typeof required>]>([
    ["nothing but the collection", [{ $match: {} }], [own]],
    ["$lookup", [{ $lookup: { from: "b", as: "x" } }], [own, onCollection("app", "b", "find")]],
    ["$graphLookup", [{ $graphLookup: { from: "b" } }], [own, onCollection("app", "b", "find")]],
    ["$unionWith by name", [{ $unionWith: "b" }], [own, onCollection("app", "b", "find")]],
    [
      "stages within stages",
      [{ $facet: { x: [{ $lookup: { from: "b", pipeline: [{ $unionWith: { coll: "c" } }] } }] } }],
      [own, onCollection("app", "b", "find"), onCollection("app", "c", "find")],
    ],
    ["$out", [{ $out: "o" }], [own, onCollection("app", "o", "insert", "remove")]],
    ["$out elsewhere", [{ $out: { db: "x", coll: "o" } }], [own, onCollection("x", "o", "insert", "remove")]],
    ["$merge", [{ $merge: { into: "o" } }], [own, onCollection("app", "o", "insert", "update")]],
    [
      "$merge that only adds",
      [{ $merge: { into: { db: "x", coll: "o" }, whenMatched: "keepExisting" } }],
      [own, onCollection("x", "o", "insert")],
    ],
    ["$collStats", [{ $collStats: {} }], [onCollection("app", "a", "collStats")]],
    ["$indexStats", [{ $indexStats: {} }], [onCollection("app", "a", "indexStats")]],
    ["$changeStream", [{ $changeStream: {} }], [onCollection("app", "a", "find", "changeStream")]],
  ])("%s", (_name, pipeline, wanted) => {
    expect(required(...pipeline)).toEqual(wanted);
  });

  test("$currentOp of all users asks for inprog, of oneself for nothing", () => {
    const current = (spec: Fields) =>
      aggregatePrivileges(asked("admin", { aggregate: 1, pipeline: [{ $currentOp: spec }] }));
    expect(current({ allUsers: true })).toEqual([onCluster("inprog")]);
    expect(current({})).toEqual([]);
  });
});
