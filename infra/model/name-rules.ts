/** Names that the server or the project would refuse. */
import type { Problem } from "./problem.ts";

/** Databases of the server itself. */
const RESERVED_DATABASES = new Set(["admin", "config", "local"]);
const MAX_NAMESPACE_BYTES = 235;
const MAX_DATABASE_BYTES = 63;

/** Splits at the first dot; a collection's name may hold further ones. */
export function splitNamespace(namespace: string): { database: string; collection: string } {
  const dot = namespace.indexOf(".");
  return dot < 0
    ? { database: namespace, collection: "" }
    : { database: namespace.slice(0, dot), collection: namespace.slice(dot + 1) };
}

/** What is wrong with a database name, or undefined. */
export function databaseNameProblem(name: string): Omit<Problem, "path"> | undefined {
  if (RESERVED_DATABASES.has(name.toLowerCase())) {
    return {
      message: `the database ${name} belongs to the server`,
      rule: "admin, config and local cannot be used by applications",
      fix: "use a database of your own",
    };
  }
  if (name === "" || /[/\\. "$*<>:|?\0]/.test(name)) {
    return {
      message: `"${name}" is not a database name`,
      rule: 'a database name is not empty and holds none of / \\ . space " $ * < > : | ?',
      fix: "use letters, digits, - and _",
    };
  }
  if (Buffer.byteLength(name) > MAX_DATABASE_BYTES) {
    return {
      message: `the database name ${name} is too long`,
      rule: `at most ${MAX_DATABASE_BYTES} bytes`,
      fix: "shorten it",
    };
  }
  return undefined;
}

/** What is wrong with a namespace, or undefined. */
export function namespaceProblem(namespace: string): Omit<Problem, "path"> | undefined {
  const { database, collection } = splitNamespace(namespace);
  if (!namespace.includes(".")) {
    return {
      message: `"${namespace}" is not a namespace`,
      rule: "a namespace is a database and a collection with a dot between",
      fix: `write it as database.${namespace || "collection"}`,
    };
  }
  const wrong = databaseNameProblem(database);
  if (wrong) return wrong;
  if (collection === "" || collection.startsWith(".") || collection.endsWith(".") || collection.includes("..")) {
    return {
      message: `"${collection}" is not a collection name`,
      rule: "a collection name is not empty and has no empty part between dots",
      fix: "name the collection",
    };
  }
  if (collection.startsWith("system.")) {
    return {
      message: `${collection} belongs to the server`,
      rule: "names that begin with system. are reserved",
      fix: "use another name",
    };
  }
  if (/[$\0]/.test(collection)) {
    return {
      message: `"${collection}" holds a $ or a null character`,
      rule: "the server refuses them in collection names",
      fix: "use letters, digits, dots, - and _",
    };
  }
  if (Buffer.byteLength(namespace) > MAX_NAMESPACE_BYTES) {
    return {
      message: `the namespace ${namespace} is too long`,
      rule: `at most ${MAX_NAMESPACE_BYTES} bytes for a sharded collection`,
      fix: "shorten it",
    };
  }
  return undefined;
}

/** Names of processes, zones and datacenters become file names, tags and host names. */
export function identifierProblem(name: string): Omit<Problem, "path"> | undefined {
  if (/^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/.test(name)) return undefined;
  return {
    message: `"${name}" is no good as a name`,
    rule: "names become file names, tags and host names: a letter or digit, then letters, digits, _ . -, at most 63 characters",
    fix: "choose such a name; for datacenters a label can say the rest",
  };
}
