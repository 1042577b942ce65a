/** Program flags, as mongos has them. */
import { readFileSync } from "node:fs";

export interface Options {
  /** `set/host:port,host:port` of the config servers. */
  readonly configdb: string;
  readonly port: number;
  readonly bindIp: readonly string[];
  readonly keyFile: string | undefined;
  readonly logPath: string | undefined;
  readonly logAppend: boolean;
  readonly pidFilePath: string | undefined;
  /** Accepted and shown by getParameter. */
  readonly parameters: ReadonlyMap<string, string>;
  readonly argv: readonly string[];
}

/** Bad flags: the message says which and what to do. */
export class BadOptions extends Error {
  override readonly name = "BadOptions";
}

const withValue: ReadonlySet<string> = new Set([
  "configdb",
  "port",
  "bind_ip",
  "keyFile",
  "logpath",
  "pidfilepath",
  "setParameter",
  "timeZoneInfo",
  "maxConns",
]);
const withoutValue: ReadonlySet<string> = new Set([
  "logappend",
  "bind_ip_all",
  "quiet",
  "ipv6",
  "nounixsocket",
  "version",
  "help",
]);

export const usage = `Routes a MongoDB sharded cluster: a stand-in for mongos, for tests and trials.
  --configdb set/host:port,...   config servers (required)
  --port 27017                   port to listen on
  --bind_ip 127.0.0.1,...        addresses to listen on; --bind_ip_all for all
  --keyFile file                 the cluster's keyfile
  --logpath file [--logappend]   log file instead of standard output
  --pidfilepath file             file for the process id
  --setParameter name=value      accepted
  --version`;

/** Reads the flags. Throws BadOptions. */
export function parseOptions(argv: readonly string[]): Options | "version" | "help" {
  const values = new Map<string, string>();
  const flags = new Set<string>();
  const parameters = new Map<string, string>();
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i] as string;
    const match = /^--?([A-Za-z_]+)(?:=(.*))?$/s.exec(arg);
    const name = match?.[1] ?? "";
    if (withoutValue.has(name)) {
      flags.add(name);
      continue;
    }
    if (!withValue.has(name)) throw new BadOptions(`unknown option ${arg}; --help lists those that there are`);
    const value = match?.[2] ?? argv[++i];
    if (value === undefined) throw new BadOptions(`option --${name} needs a value`);
    if (name === "setParameter") {
      const equals = value.indexOf("=");
      if (equals < 1) throw new BadOptions(`--setParameter ${value}: write name=value`);
      parameters.set(value.slice(0, equals), value.slice(equals + 1));
    } else values.set(name, value);
  }
  if (flags.has("version")) return "version";
  if (flags.has("help")) return "help";
  const configdb = values.get("configdb");
  if (configdb === undefined)
    throw new BadOptions("--configdb is missing: name the config servers as set/host:port,...");
  if (!/^[^/]+\/[^/]+$/.test(configdb))
    throw new BadOptions(`--configdb ${configdb}: write replicaSetName/host:port,host:port`);
  const port = Number(values.get("port") ?? 27017);
  if (!Number.isInteger(port) || port < 1 || port > 65535)
    throw new BadOptions(`--port ${values.get("port")}: a number from 1 to 65535 is needed`);
  const bind = flags.has("bind_ip_all") ? "0.0.0.0" : (values.get("bind_ip") ?? "127.0.0.1");
  return {
    configdb,
    port,
    bindIp: bind
      .split(",")
      .filter((address) => address !== "" && !address.startsWith("/"))
      .map((address) => (address === "localhost" ? "127.0.0.1" : address)),
    keyFile: values.get("keyFile"),
    logPath: values.get("logpath"),
    logAppend: flags.has("logappend"),
    pidFilePath: values.get("pidfilepath"),
    parameters,
    argv,
  };
}

/** The keyfile's text without white space. Throws BadOptions when it cannot be used. */
export function readKeyFile(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw new BadOptions(`--keyFile ${path} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  const key = text.replaceAll(/\s/g, "");
  if (key.length < 6 || key.length > 1024)
    throw new BadOptions(`--keyFile ${path}: a key has 6 to 1024 characters, this one ${key.length}`);
  return key;
}
