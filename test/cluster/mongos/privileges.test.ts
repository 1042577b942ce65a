import { type Db, type Document, type MongoClient, MongoServerError } from "mongodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ADMIN, type ShardedCluster, startShardedCluster } from "../../support/sharded-cluster.ts";

/** Role of the user of the same name, who logs in on `admin`. */
const roles: Readonly<Record<string, readonly unknown[]>> = {
  read: [{ role: "read", db: "app" }],
  readWrite: [{ role: "readWrite", db: "app" }],
  dbAdmin: [{ role: "dbAdmin", db: "app" }],
  userAdmin: [{ role: "userAdmin", db: "app" }],
  dbOwner: [{ role: "dbOwner", db: "app" }],
  clusterMonitor: ["clusterMonitor"],
  clusterManager: ["clusterManager"],
  enableSharding: ["enableSharding"],
  readAnyDatabase: ["readAnyDatabase"],
  oneCollection: [{ role: "oneCollection", db: "admin" }],
  nothing: [],
};

const password = "pencil";
let cluster: ShardedCluster;
let root: MongoClient;
const clients = new Map<string, MongoClient>();

beforeAll(async () => {
  cluster = await startShardedCluster();
  root = await cluster.connect();
  const admin = root.db("admin");
  await admin.command({ enableSharding: "app", primaryShard: "shard0000" });
  await admin.command({ shardCollection: "app.sharded", key: { k: 1 } });
  await root.db("app").collection("plain").insertOne({ a: 1 });
  await root.db("app").collection("other").insertOne({ a: 1 });
  await root.db("private").collection("plain").insertOne({ a: 1 });
  await admin.command({
    createRole: "oneCollection",
    privileges: [{ resource: { db: "app", collection: "plain" }, actions: ["find", "insert"] }],
    roles: [],
  });
  for (const [user, given] of Object.entries(roles)) {
    await admin.command({ createUser: user, pwd: password, roles: given });
    clients.set(user, await cluster.connect(cluster.router.uriOf({ username: user, password })));
  }
});

afterAll(() => cluster?.[Symbol.asyncDispose]());

function as(user: string, db: string): Db {
  const client = clients.get(user);
  if (client === undefined) throw new Error(`No client of ${user}.`);
  return client.db(db);
}

async function outcome(db: Db, command: Document): Promise<string> {
  try {
    await db.command(command);
    return "ok";
  } catch (error) {
    if (!(error instanceof MongoServerError)) throw error;
    return error.codeName ?? String(error.code);
  }
}

/** Command, its database, and who may run it; everybody else of `roles` must get Unauthorized. */
const table: readonly (readonly [db: string, command: Document, allowed: readonly string[]])[] = [
  ["app", { find: "plain" }, ["read", "readWrite", "dbOwner", "readAnyDatabase", "oneCollection"]],
  ["app", { find: "other" }, ["read", "readWrite", "dbOwner", "readAnyDatabase"]],
  ["app", { count: "sharded" }, ["read", "readWrite", "dbOwner", "readAnyDatabase"]],
  ["app", { distinct: "plain", key: "a" }, ["read", "readWrite", "dbOwner", "readAnyDatabase", "oneCollection"]],
  ["private", { find: "plain" }, ["readAnyDatabase"]],
  ["app", { insert: "plain", documents: [{ b: 1 }] }, ["readWrite", "dbOwner", "oneCollection"]],
  ["app", { update: "plain", updates: [{ q: { b: 1 }, u: { $set: { c: 1 } } }] }, ["readWrite", "dbOwner"]],
  ["app", { delete: "plain", deletes: [{ q: { nosuch: 1 }, limit: 0 }] }, ["readWrite", "dbOwner"]],
  ["app", { create: "made" }, ["readWrite", "dbAdmin", "dbOwner"]],
  ["app", { createIndexes: "plain", indexes: [{ key: { z: 1 }, name: "z" }] }, ["readWrite", "dbAdmin", "dbOwner"]],
  ["app", { collMod: "plain", validationLevel: "moderate" }, ["dbAdmin", "dbOwner"]],
  ["app", { collStats: "plain" }, ["read", "readWrite", "dbAdmin", "dbOwner", "clusterMonitor", "readAnyDatabase"]],
  ["app", { dbStats: 1 }, ["read", "readWrite", "dbAdmin", "dbOwner", "clusterMonitor", "readAnyDatabase"]],
  ["app", { validate: "plain" }, ["dbAdmin", "dbOwner"]],
  ["app", { usersInfo: 1 }, ["userAdmin", "dbOwner"]],
  ["app", { usersInfo: { user: "root", db: "admin" } }, []],
  [
    "app",
    { explain: { find: "plain" }, verbosity: "queryPlanner" },
    ["read", "readWrite", "dbOwner", "readAnyDatabase", "oneCollection"],
  ],
  ["config", { find: "chunks", limit: 1 }, ["clusterMonitor", "clusterManager"]],
  ["admin", { listShards: 1 }, ["clusterMonitor", "clusterManager"]],
  ["admin", { getShardMap: 1 }, ["clusterMonitor"]],
  ["admin", { balancerStatus: 1 }, ["clusterMonitor", "clusterManager"]],
  ["admin", { balancerStart: 1 }, ["clusterManager"]],
  ["admin", { addShardToZone: "shard0000", zone: "z" }, ["clusterManager"]],
  ["admin", { updateZoneKeyRange: "app.sharded", min: { k: 1 }, max: { k: 2 }, zone: null }, ["clusterManager"]],
  ["admin", { removeShardFromZone: "shard0000", zone: "z" }, ["clusterManager"]],
  ["admin", { enableSharding: "app" }, ["clusterManager", "enableSharding"]],
  ["admin", { shardCollection: "app.sharded", key: { k: 1 } }, ["clusterManager", "enableSharding"]],
  ["admin", { moveChunk: "app.sharded", find: { k: 1 }, to: "shard0000" }, ["clusterManager"]],
  ["admin", { flushRouterConfig: 1 }, ["clusterManager"]],
  ["admin", { serverStatus: 1 }, ["clusterMonitor"]],
  ["admin", { getParameter: 1, quiet: 1 }, ["clusterMonitor"]],
  ["admin", { currentOp: 1 }, ["clusterMonitor"]],
  ["admin", { getDefaultRWConcern: 1 }, ["clusterManager", "clusterMonitor"]],
  ["admin", { usersInfo: 1 }, []],
  ["admin", { createUser: "mallory", pwd: "x", roles: ["root"] }, []],
];

describe("who may run what", () => {
  test.each(table.map(([db, command, allowed]) => ({ db, command, allowed, text: JSON.stringify(command) })))(
    "$db $text",
    async ({ db, command, allowed }) => {
      const answers = await Promise.all(
        Object.keys(roles).map(async (user) => [user, await outcome(as(user, db), command)] as const),
      );
      const ran = answers.filter(([, answer]) => answer === "ok").map(([user]) => user);
      const others = answers.filter(([user, answer]) => answer !== "ok" && !allowed.includes(user));
      expect(ran.sort()).toEqual([...allowed].sort());
      expect(others.filter(([, answer]) => answer !== "Unauthorized")).toEqual([]);
    },
  );
});

describe("the refusal's words", () => {
  test("name the database and the command, without its secrets", async () => {
    const refused = as("read", "app").command({ insert: "plain", documents: [{ n: 1 }] });
    await expect(refused).rejects.toMatchObject({
      code: 13,
      codeName: "Unauthorized",
      message: expect.stringMatching(/^not authorized on app to execute command \{ insert: "plain", /),
    });
    const withSecret = as("read", "admin").command({ createUser: "m", pwd: "do-not-show", roles: [] });
    await expect(withSecret).rejects.toSatisfy((e) => e instanceof Error && !e.message.includes("do-not-show"));
  });

  test("without a login, only greetings are answered", async () => {
    const client = await cluster.connect(cluster.router.bareUri);
    for (const command of [{ hello: 1 }, { ping: 1 }, { buildInfo: 1 }, { connectionStatus: 1 }])
      expect(await outcome(client.db("admin"), command)).toBe("ok");
    const refused = client.db("app").command({ find: "plain" });
    await expect(refused).rejects.toMatchObject({ code: 13, message: "command find requires authentication" });
    expect(await outcome(client.db("admin"), { createUser: "first", pwd: "x", roles: ["root"] })).toBe("Unauthorized");
    expect(await outcome(client.db("admin"), { listDatabases: 1 })).toBe("Unauthorized");
  });

  test("a wrong password gets AuthenticationFailed", async () => {
    const uri = cluster.router.uriOf({ ...ADMIN, password: "wrong" });
    await expect(cluster.connect(uri)).rejects.toMatchObject({ code: 18, codeName: "AuthenticationFailed" });
  });
});

describe("what a user sees and may do with himself", () => {
  test("listDatabases shows the databases that he may see", async () => {
    const names = async (user: string) =>
      (await as(user, "admin").command({ listDatabases: 1, nameOnly: true })).databases.map((d: Document) => d.name);
    expect(await names("readWrite")).toEqual(["app"]);
    expect(await names("nothing")).toEqual([]);
    expect(await names("clusterMonitor")).toEqual(expect.arrayContaining(["admin", "app", "config", "private"]));
    expect(await outcome(as("readWrite", "admin"), { listDatabases: 1, authorizedDatabases: false })).toBe(
      "Unauthorized",
    );
  });

  test("listCollections shows the collections that he may see, when he asks for those", async () => {
    const visible = await as("oneCollection", "app").command({
      ...{ listCollections: 1, nameOnly: true, authorizedCollections: true },
    });
    expect(visible.cursor.firstBatch.map((c: Document) => c.name)).toEqual(["plain"]);
    expect(await outcome(as("oneCollection", "app"), { listCollections: 1 })).toBe("Unauthorized");
    expect(await outcome(as("read", "app"), { listCollections: 1 })).toBe("ok");
  });

  test("he may look at himself and change his own password with the right to it", async () => {
    const self = await as("read", "admin").command({ usersInfo: "read" });
    expect(self.users).toHaveLength(1);
    expect(await outcome(as("read", "admin"), { updateUser: "read", pwd: "new" })).toBe("Unauthorized");
    await root.db("admin").command({
      createRole: "ownPassword",
      privileges: [{ resource: { db: "admin", collection: "" }, actions: ["changeOwnPassword"] }],
      roles: [],
    });
    await root.db("admin").command({ grantRolesToUser: "nothing", roles: ["ownPassword"] });
    expect(await outcome(as("nothing", "admin"), { updateUser: "nothing", pwd: password })).toBe("ok");
    expect(await outcome(as("nothing", "admin"), { updateUser: "read", pwd: "stolen" })).toBe("Unauthorized");
  });

  test("connectionStatus lists his roles and, when asked, his privileges", async () => {
    const { authInfo } = await as("oneCollection", "admin").command({ connectionStatus: 1, showPrivileges: true });
    expect(authInfo.authenticatedUsers).toEqual([{ user: "oneCollection", db: "admin" }]);
    expect(authInfo.authenticatedUserRoles).toEqual([{ role: "oneCollection", db: "admin" }]);
    expect(authInfo.authenticatedUserPrivileges[0]).toMatchObject({ resource: { db: "app", collection: "plain" } });
  });

  test("a role granted or revoked through the router holds at once", async () => {
    const admin = root.db("admin");
    expect(await outcome(as("nothing", "app"), { find: "plain" })).toBe("Unauthorized");
    await admin.command({ grantRolesToUser: "nothing", roles: [{ role: "read", db: "app" }] });
    expect(await outcome(as("nothing", "app"), { find: "plain" })).toBe("ok");
    await admin.command({ revokeRolesFromUser: "nothing", roles: [{ role: "read", db: "app" }] });
    expect(await outcome(as("nothing", "app"), { find: "plain" })).toBe("Unauthorized");
  });

  test("a user of another database logs in there", async () => {
    await root.db("app").command({ createUser: "local", pwd: password, roles: ["readWrite"] });
    const client = await cluster.connect(cluster.router.uriOf({ username: "local", password }, "app"));
    expect(await outcome(client.db("app"), { find: "plain" })).toBe("ok");
    expect(await outcome(client.db("private"), { find: "plain" })).toBe("Unauthorized");
  });

  test("privileges of aggregates follow what their stages read and write", async () => {
    const aggregate = (pipeline: Document[]) => ({ aggregate: "plain", pipeline, cursor: {} });
    expect(await outcome(as("oneCollection", "app"), aggregate([{ $match: {} }]))).toBe("ok");
    const lookup = [{ $lookup: { from: "other", localField: "a", foreignField: "a", as: "o" } }];
    expect(await outcome(as("oneCollection", "app"), aggregate(lookup))).toBe("Unauthorized");
    expect(await outcome(as("read", "app"), aggregate([{ $out: "stolen" }]))).toBe("Unauthorized");
    const union = [{ $unionWith: { coll: "other", pipeline: [] } }];
    expect(await outcome(as("oneCollection", "app"), aggregate(union))).toBe("Unauthorized");
    const merge = [{ $merge: { into: { db: "private", coll: "plain" } } }];
    expect(await outcome(as("readWrite", "app"), aggregate(merge))).toBe("Unauthorized");
  });
});
