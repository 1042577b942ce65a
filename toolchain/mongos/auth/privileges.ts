/**
 * Which actions on which resources each command needs, as a real mongos asks them, and whether a user's privileges cover
 * them. Pure. Sources: the manual's "Privilege Actions", "Built-In Roles" and each command's page.
 */
import { bsonType, type Doc, type Value } from "../bson/document.ts";
import type { Privilege, Resource } from "../commands/registry.ts";

/** A privilege as `usersInfo {showPrivileges: true}` lists it. */
export interface Granted {
  readonly resource: {
    readonly db?: string;
    readonly collection?: string;
    readonly cluster?: boolean;
    readonly anyResource?: boolean;
  };
  readonly actions: readonly string[];
}

export const onCluster = (...actions: string[]): Privilege => ({ resource: { cluster: true }, actions });
/** On a database as such: covered by privileges on `{db, collection: ""}`. */
export const onDatabase = (db: string, ...actions: string[]): Privilege => ({
  resource: { db, collection: "" },
  actions,
});
/** On every non-system collection of every database. */
export const onAnyDatabase = (...actions: string[]): Privilege => onDatabase("", ...actions);
export const onCollection = (db: string, collection: string, ...actions: string[]): Privilege => ({
  resource: { db, collection },
  actions,
});
/** On the collection that a full namespace names. */
export function onNamespace(ns: string, ...actions: string[]): Privilege {
  const dot = ns.indexOf(".");
  return dot < 0 ? onDatabase(ns, ...actions) : onCollection(ns.slice(0, dot), ns.slice(dot + 1), ...actions);
}

/** Privileges on "any database" stop short of these: they name them by themselves. */
const internalDatabases: ReadonlySet<string> = new Set(["local", "config"]);

/**
 * The resources that cover one: the server looks them up in this order and takes actions from each. System collections
 * are covered by name only.
 */
export function coveringResources(target: Resource): readonly Resource[] {
  const list: Resource[] = [{ anyResource: true }];
  if ("anyResource" in target) return list;
  if ("cluster" in target) return [...list, target];
  const anyNormal: Resource = { db: "", collection: "" };
  if (target.collection === "") {
    if (target.db !== "" && !internalDatabases.has(target.db)) list.push(anyNormal);
    return [...list, target];
  }
  if (!target.collection.startsWith("system.")) {
    if (!internalDatabases.has(target.db)) list.push(anyNormal);
    list.push({ db: target.db, collection: "" });
  }
  if (target.db !== "") list.push({ db: "", collection: target.collection });
  return [...list, target];
}

function sameResource(granted: Granted["resource"], resource: Resource): boolean {
  if ("anyResource" in resource) return granted.anyResource === true;
  if ("cluster" in resource) return granted.cluster === true;
  return granted.db === resource.db && granted.collection === resource.collection;
}

/** The actions of a required privilege that the granted ones do not give. */
export function missingActions(granted: readonly Granted[], required: Privilege): readonly string[] {
  const missing = new Set(required.actions);
  for (const resource of coveringResources(required.resource))
    for (const privilege of granted)
      if (sameResource(privilege.resource, resource)) for (const action of privilege.actions) missing.delete(action);
  return [...missing];
}

/** Do the granted privileges cover all that is required (or what it names as the other way)? */
export function covers(granted: readonly Granted[], required: readonly Privilege[]): boolean {
  return required.every(
    (one) => missingActions(granted, one).length === 0 || (one.or !== undefined && covers(granted, one.or)),
  );
}

/** Has the user any privilege at all on a database or one of its collections? (`listDatabases` shows those.) */
export function seesDatabase(granted: readonly Granted[], db: string): boolean {
  return granted.some(({ resource, actions }) => {
    if (actions.length === 0) return false;
    if (resource.anyResource === true) return true;
    if (resource.db === undefined) return false;
    return resource.db === db || (resource.db === "" && (resource.collection !== "" || !internalDatabases.has(db)));
  });
}

/** Names of collections of a database that the user has any privilege on, or `all`. */
export function visibleCollections(granted: readonly Granted[], db: string): "all" | readonly string[] {
  const names = new Set<string>();
  for (const { resource, actions } of granted) {
    if (actions.length === 0) continue;
    if (resource.anyResource === true) return "all";
    if (resource.db === undefined || (resource.db !== "" && resource.db !== db)) continue;
    if (resource.collection === "") {
      if (resource.db === db || !internalDatabases.has(db)) return "all";
    } else if (resource.collection !== undefined) names.add(resource.collection);
  }
  return [...names];
}

/** Actions of the zone commands when the role gives no `enableSharding` on the cluster: those on the metadata itself. */
const orMetadata = (...metadata: Privilege[]): readonly Privilege[] => [
  { ...onCluster("enableSharding"), or: metadata },
];

/** What a command's own argument says about where: its database, body, and first value as text. */
export interface Asked {
  readonly db: string;
  readonly body: Doc;
  /** The command's first value, when it is a string. */
  readonly target: string;
}

const name = (value: Value | undefined): string => (value?.type === bsonType.string ? value.text() : "");

/** The databases of the roles in an array such as `["read", {role: "read", db: "x"}]`. */
function databasesOfRoles(asked: Asked, field: string): readonly string[] {
  const items = asked.body.array(field) ?? [];
  return items.map((item) => (item.isObject() ? (item.doc().string("db") ?? asked.db) : asked.db));
}

const grantRole = (asked: Asked, field: string) =>
  databasesOfRoles(asked, field).map((db) => onDatabase(db, "grantRole"));
const revokeRole = (asked: Asked, field: string) =>
  databasesOfRoles(asked, field).map((db) => onDatabase(db, "revokeRole"));

/** Granting or revoking a privilege needs the action on the database it is about; on `admin` for wider ones. */
function privilegeChange(asked: Asked, action: "grantRole" | "revokeRole"): readonly Privilege[] {
  return asked.body.docs("privileges").map((privilege) => {
    const db = privilege.doc("resource")?.string("db") ?? "";
    return onDatabase(db === "" ? "admin" : db, action);
  });
}

/** The users (or roles) that usersInfo (rolesInfo) asks about; undefined: all of the database. */
export function namedPrincipals(
  asked: Asked,
  kind: "user" | "role",
): readonly { readonly name: string; readonly db: string }[] | undefined {
  const first = asked.body.first();
  if (first === undefined) return undefined;
  const one = (value: Value) =>
    value.isObject()
      ? { name: value.doc().string(kind) ?? "", db: value.doc().string("db") ?? asked.db }
      : { name: name(value), db: asked.db };
  if (first.isArray()) return first.items().map(one);
  return first.isObject() || first.type === bsonType.string ? [one(first)] : undefined;
}

const onTarget =
  (...actions: string[]) =>
  (asked: Asked) => [onNamespace(asked.target, ...actions)];
const onOwnCollection =
  (...actions: string[]) =>
  (asked: Asked) => [onCollection(asked.db, asked.target, ...actions)];
const cluster =
  (...actions: string[]) =>
  () => [onCluster(...actions)];
const configCollection =
  (collection: string, ...actions: string[]) =>
  () => [onCollection("config", collection, ...actions)];

/** `create` and `collMod` may define a view: its author must be able to read what it shows. */
function viewSources(asked: Asked): readonly Privilege[] {
  const source = asked.body.string("viewOn");
  return source === undefined ? [] : [onCollection(asked.db, source, "find")];
}

/** Stages that read something else than the collection, when they come first. */
const sourceStages: Readonly<Record<string, (asked: Asked, stage: Value) => readonly Privilege[]>> = {
  $collStats: (asked) => [onCollection(asked.db, asked.target, "collStats")],
  $indexStats: (asked) => [onCollection(asked.db, asked.target, "indexStats")],
  $planCacheStats: (asked) => [onCollection(asked.db, asked.target, "planCacheRead")],
  $changeStream: (asked, stage) => {
    const all = stage.isObject() && stage.doc().bool("allChangesForCluster") === true;
    const actions = ["find", "changeStream"];
    if (all) return [onAnyDatabase(...actions)];
    return [asked.target === "" ? onDatabase(asked.db, ...actions) : onCollection(asked.db, asked.target, ...actions)];
  },
  $currentOp: (_, stage) => (stage.isObject() && stage.doc().bool("allUsers") === true ? [onCluster("inprog")] : []),
  $listLocalSessions: (_, stage) =>
    stage.isObject() && stage.doc().bool("allUsers") === true ? [onCluster("listSessions")] : [],
  $listSessions: (_, stage) =>
    stage.isObject() && stage.doc().bool("allUsers") === true ? [onCluster("listSessions")] : [],
  $documents: () => [],
  $listCatalog: (asked) => {
    const actions = ["listCollections", "listIndexes"];
    return [asked.target === "" ? onAnyDatabase(...actions) : onCollection(asked.db, asked.target, ...actions)];
  },
  $shardedDataDistribution: () => [onCluster("shardedDataDistribution")],
};

/** A collection that a stage names: a string, or `{db, coll}`. */
function stageTarget(asked: Asked, value: Value | undefined): { readonly db: string; readonly collection: string } {
  if (value?.isObject()) {
    const doc = value.doc();
    return { db: doc.string("db") ?? asked.db, collection: doc.string("coll") ?? "" };
  }
  return { db: asked.db, collection: name(value) };
}

/** What a pipeline's stages read and write beside its own collection. */
function stagePrivileges(asked: Asked, pipeline: readonly Doc[]): readonly Privilege[] {
  const list: Privilege[] = [];
  const reads = (value: Value | undefined) => {
    const { db, collection } = stageTarget(asked, value);
    if (collection !== "") list.push(onCollection(db, collection, "find"));
  };
  for (const stage of pipeline) {
    const element = stage.first();
    if (element === undefined) continue;
    const spec = element.isObject() ? element.doc() : undefined;
    switch (element.name) {
      case "$lookup":
      case "$graphLookup":
        reads(spec?.find("from"));
        list.push(...stagePrivileges(asked, spec?.docs("pipeline") ?? []));
        break;
      case "$unionWith":
        reads(spec?.find("coll") ?? element);
        list.push(...stagePrivileges(asked, spec?.docs("pipeline") ?? []));
        break;
      case "$facet":
        for (const branch of spec?.elements() ?? [])
          if (branch.isArray())
            list.push(
              ...stagePrivileges(
                asked,
                branch.items().flatMap((item) => (item.isObject() ? [item.doc()] : [])),
              ),
            );
        break;
      case "$out": {
        const { db, collection } = stageTarget(asked, element);
        list.push(onCollection(db, collection, "insert", "remove"));
        break;
      }
      case "$merge": {
        const { db, collection } = stageTarget(asked, spec?.find("into") ?? element);
        const inserts = (spec?.string("whenNotMatched") ?? "insert") === "insert" ? ["insert"] : [];
        const matched = spec?.find("whenMatched");
        const updates = matched !== undefined && ["fail", "keepExisting"].includes(name(matched)) ? [] : ["update"];
        list.push(onCollection(db, collection, ...inserts, ...updates));
        break;
      }
    }
  }
  return list;
}

/** Privileges of an aggregate: its source's, and those of every stage that reads or writes another collection. */
export function aggregatePrivileges(asked: Asked): readonly Privilege[] {
  const pipeline = asked.body.docs("pipeline");
  const first = pipeline[0]?.first();
  const source = first === undefined ? undefined : sourceStages[first.name];
  const own =
    first !== undefined && source !== undefined
      ? source(asked, first)
      : [asked.target === "" ? onDatabase(asked.db, "find") : onCollection(asked.db, asked.target, "find")];
  const bypass = asked.body.bool("bypassDocumentValidation") === true ? ["bypassDocumentValidation"] : [];
  const writes = stagePrivileges(asked, pipeline);
  return [
    ...own,
    ...writes.map((one) => (one.actions.includes("find") ? one : { ...one, actions: [...one.actions, ...bypass] })),
  ];
}

/** Privileges by command. Commands that any logged-in user may run are not here. */
export const privilegeTable: Readonly<Record<string, (asked: Asked) => readonly Privilege[]>> = {
  // Sharding
  enableSharding: (asked) => [onDatabase(asked.target, "enableSharding")],
  shardCollection: onTarget("enableSharding"),
  refineCollectionShardKey: onTarget("refineCollectionShardKey"),
  reshardCollection: onTarget("reshardCollection"),
  abortReshardCollection: onTarget("reshardCollection"),
  commitReshardCollection: onTarget("reshardCollection"),
  cleanupReshardCollection: onTarget("reshardCollection"),
  split: onTarget("splitChunk"),
  mergeChunks: onTarget("splitChunk"),
  moveChunk: onTarget("moveChunk"),
  moveRange: onTarget("moveChunk"),
  splitVector: onTarget("splitVector"),
  clearJumboFlag: onTarget("clearJumboFlag"),
  setAllowMigrations: onTarget("moveChunk"),
  getShardVersion: onTarget("getShardVersion"),
  movePrimary: (asked) => [onDatabase(asked.target, "moveChunk")],
  addShard: cluster("addShard"),
  removeShard: cluster("removeShard"),
  listShards: cluster("listShards"),
  getShardMap: cluster("getShardMap"),
  addShardToZone: () => orMetadata(onCollection("config", "shards", "update")),
  removeShardFromZone: () =>
    orMetadata(onCollection("config", "shards", "update"), onCollection("config", "tags", "find")),
  updateZoneKeyRange: () =>
    orMetadata(onCollection("config", "shards", "find"), onCollection("config", "tags", "find", "update", "remove")),
  balancerStart: configCollection("settings", "update"),
  balancerStop: configCollection("settings", "update"),
  balancerStatus: configCollection("settings", "find"),
  balancerCollectionStatus: onTarget("enableSharding"),
  configureCollectionBalancing: onTarget("enableSharding"),
  flushRouterConfig: cluster("flushRouterConfig"),

  // Reads
  aggregate: aggregatePrivileges,

  // Databases, collections and indexes
  create: (asked) => [
    {
      ...onCollection(asked.db, asked.target, "createCollection"),
      or: [onCollection(asked.db, asked.target, "insert")],
    },
    ...viewSources(asked),
    ...(asked.body.bool("capped") === true ? [onCollection(asked.db, asked.target, "convertToCapped")] : []),
  ],
  drop: onOwnCollection("dropCollection"),
  dropDatabase: (asked) => [onDatabase(asked.db, "dropDatabase")],
  renameCollection: (asked) => {
    const to = asked.body.string("to") ?? "";
    const drops = asked.body.bool("dropTarget") === true ? ["dropCollection"] : [];
    const sameDatabase = asked.target.split(".")[0] === to.split(".")[0];
    const apart = [
      onNamespace(asked.target, "find", "dropCollection"),
      onNamespace(to, "insert", "createIndex", ...drops),
    ];
    if (!sameDatabase || drops.length > 0) return apart;
    return [{ ...onDatabase(asked.target.split(".")[0] ?? "", "renameCollectionSameDB"), or: apart }];
  },
  collMod: (asked) => [onCollection(asked.db, asked.target, "collMod"), ...viewSources(asked)],
  createIndexes: onOwnCollection("createIndex"),
  dropIndexes: onOwnCollection("dropIndex"),
  listIndexes: onOwnCollection("listIndexes"),
  collStats: onOwnCollection("collStats"),
  dbStats: (asked) => [onDatabase(asked.db, "dbStats")],
  dataSize: onTarget("find"),
  validate: onOwnCollection("validate"),
  convertToCapped: onOwnCollection("convertToCapped"),
  compact: onOwnCollection("compact"),

  // Users and roles
  createUser: (asked) => [onDatabase(asked.db, "createUser"), ...grantRole(asked, "roles")],
  dropUser: (asked) => [onDatabase(asked.db, "dropUser")],
  dropAllUsersFromDatabase: (asked) => [onDatabase(asked.db, "dropUser")],
  grantRolesToUser: (asked) => grantRole(asked, "roles"),
  revokeRolesFromUser: (asked) => revokeRole(asked, "roles"),
  createRole: (asked) => [
    onDatabase(asked.db, "createRole"),
    ...grantRole(asked, "roles"),
    ...privilegeChange(asked, "grantRole"),
  ],
  updateRole: (asked) => [
    onAnyDatabase("revokeRole"),
    ...grantRole(asked, "roles"),
    ...privilegeChange(asked, "grantRole"),
  ],
  grantPrivilegesToRole: (asked) => privilegeChange(asked, "grantRole"),
  revokePrivilegesFromRole: (asked) => privilegeChange(asked, "revokeRole"),
  grantRolesToRole: (asked) => grantRole(asked, "roles"),
  revokeRolesFromRole: (asked) => revokeRole(asked, "roles"),
  dropRole: (asked) => [onDatabase(asked.db, "dropRole")],
  dropAllRolesFromDatabase: (asked) => [onDatabase(asked.db, "dropRole")],
  invalidateUserCache: cluster("invalidateUserCache"),

  // The server itself
  getParameter: cluster("getParameter"),
  setParameter: cluster("setParameter"),
  getCmdLineOpts: cluster("getCmdLineOpts"),
  serverStatus: cluster("serverStatus"),
  hostInfo: cluster("hostInfo"),
  getLog: cluster("getLog"),
  logRotate: cluster("logRotate"),
  killOp: cluster("killop"),
  killAllSessions: cluster("killAnySession"),
  killAllSessionsByPattern: cluster("killAnySession"),
  planCacheClear: onOwnCollection("planCacheWrite"),
  profile: (asked) => [
    asked.body.number("profile") === -1
      ? { ...onDatabase(asked.db, "enableProfiler"), or: [onCollection(asked.db, "system.profile", "find")] }
      : onDatabase(asked.db, "enableProfiler"),
  ],
  shutdown: cluster("shutdown"),
  fsync: cluster("fsync"),
  setFeatureCompatibilityVersion: cluster("setFeatureCompatibilityVersion"),
  setDefaultRWConcern: cluster("setDefaultRWConcern"),
  getDefaultRWConcern: cluster("getDefaultRWConcern"),
  connPoolStats: cluster("connPoolStats"),
  connPoolSync: cluster("connPoolSync"),
};

/** Privileges of updateUser: one's own password and custom data need less. */
export function updateUserPrivileges(asked: Asked, self: boolean): readonly Privilege[] {
  const list: Privilege[] = [];
  if (asked.body.has("pwd"))
    list.push(
      self
        ? { ...onDatabase(asked.db, "changeOwnPassword"), or: [onDatabase(asked.db, "changePassword")] }
        : onDatabase(asked.db, "changePassword"),
    );
  if (asked.body.has("customData"))
    list.push(
      self
        ? { ...onDatabase(asked.db, "changeOwnCustomData"), or: [onDatabase(asked.db, "changeCustomData")] }
        : onDatabase(asked.db, "changeCustomData"),
    );
  if (asked.body.has("roles")) list.push(onAnyDatabase("revokeRole"), ...grantRole(asked, "roles"));
  return list;
}
