/** What administration commands share: reading their arguments, and passing on what config servers and shards answer. */
import { requirementOf } from "../auth/requirements.ts";
import { bsonType, type Doc, DocWriter, type Encodable, type Fields, type Value } from "../bson/document.ts";
import type { CollectionRouting } from "../catalog/entries.ts";
import { type CommandContext, typeName } from "../context.ts";
import { CommandError, codeName, errorCode, gossip } from "../errors.ts";
import type { RunOptions, ShardReply } from "../router.ts";
import type { CommandDefinition } from "./registry.ts";

/** Changes of metadata are acknowledged by a majority, whatever the client asks. */
export const majority: Fields = { w: "majority" };

/** For questions and changes that the config servers take twice without harm. */
export const idempotent: RunOptions = { idempotent: true };

/** A command whose privileges stand in the privilege table. */
export function governed(name: string, definition: Omit<CommandDefinition, "requires">): CommandDefinition {
  return { requires: requirementOf(name), ...definition };
}

export interface Namespace {
  readonly ns: string;
  readonly db: string;
  readonly collection: string;
}

export function parseNamespace(text: string): Namespace {
  const dot = text.indexOf(".");
  const [db, collection] = dot < 0 ? [text, ""] : [text.slice(0, dot), text.slice(dot + 1)];
  if (!isDatabaseName(db) || collection === "" || collection.startsWith("."))
    throw new CommandError(errorCode.InvalidNamespace, `Invalid namespace specified '${text}'`);
  return { ns: text, db, collection };
}

export function isDatabaseName(name: string): boolean {
  return name !== "" && Buffer.byteLength(name) < 64 && !/[/\\. "$\0]/.test(name);
}

/** A full namespace as the command's first value. */
export function targetNamespace(ctx: CommandContext): Namespace {
  return parseNamespace(stringArgument(ctx, ctx.body.first()?.name ?? ctx.name));
}

/** A string field that must be there; TypeMismatch or Location40414 as the server's parser gives them. */
export function stringArgument(ctx: CommandContext, field: string): string {
  const value = ctx.body.find(field);
  if (value === undefined) throw missingField(ctx, field);
  if (value.type !== bsonType.string) throw wrongType(ctx, field, value, "string");
  return value.text();
}

export function docArgument(ctx: CommandContext, field: string): Doc {
  const value = ctx.body.find(field);
  if (value === undefined) throw missingField(ctx, field);
  if (!value.isObject()) throw wrongType(ctx, field, value, "object");
  return value.doc();
}

export function missingField(ctx: CommandContext, field: string): CommandError {
  return new CommandError(40_414, `BSON field '${ctx.name}.${field}' is missing but a required field`);
}

export function wrongType(ctx: CommandContext, field: string, value: Value, wanted: string): CommandError {
  const message = `BSON field '${ctx.name}.${field}' is the wrong type '${typeName(value.type)}', expected type '${wanted}'`;
  return new CommandError(errorCode.TypeMismatch, message);
}

/** The named fields of a command that are there, as they are. */
export function given(ctx: CommandContext, ...fields: string[]): Fields {
  const found: Record<string, Encodable> = {};
  for (const field of fields) found[field] = ctx.body.find(field);
  return found;
}

/** A refusal without a code, as older commands of a mongos give it. */
export function plainRefusal(message: string): CommandError {
  return new CommandError(0, message);
}

/** A server's reply without what is between router and server only. */
export function passOn(reply: Doc): Doc {
  return reply.without(...gossip);
}

/** Runs a command on the config servers' primary and passes its reply on. */
export async function askConfig(ctx: CommandContext, command: Fields | Doc, db = "admin"): Promise<Doc> {
  return passOn(await ctx.router.config.run(ctx, db, command, idempotent));
}

/** The routing table of a sharded collection, read anew: administration never works on an old one. */
export async function freshRouting(ctx: CommandContext, { ns, db }: Namespace): Promise<CollectionRouting> {
  ctx.router.catalog.invalidateDatabase(db);
  ctx.router.catalog.invalidateCollection(ns);
  if ((await ctx.router.catalog.database(ctx, db)) === undefined)
    throw new CommandError(errorCode.NamespaceNotFound, `database ${db} not found`);
  const routing = await ctx.router.catalog.collection(ctx, ns);
  if (routing === undefined) throw new CommandError(errorCode.NamespaceNotSharded, `Collection ${ns} is not sharded`);
  return routing;
}

/** A key tuple as a document of the shard key's fields. */
export function keyDocument(pattern: Doc, values: readonly Value[]): Doc {
  const out = new DocWriter();
  pattern.elements().forEach((field, i) => {
    out.append(field.name, values[i]);
  });
  return out.finish();
}

/** Connection strings by shard name, as `raw` of merged replies has them for keys. */
export async function connectionStrings(ctx: CommandContext): Promise<ReadonlyMap<string, string>> {
  const shards = await ctx.router.catalog.shards(ctx);
  return new Map(shards.map((shard) => [shard.id, shard.host]));
}

/**
 * Merges the replies of several shards to a change: `raw` with each of them; the first refusal makes the whole one (its
 * code, and `raw` beside it).
 */
export async function mergeRaw(ctx: CommandContext, replies: readonly ShardReply[]): Promise<Fields> {
  const hosts = await connectionStrings(ctx);
  const raw: Record<string, Encodable> = {};
  for (const { shard, reply } of replies) raw[hosts.get(shard) ?? shard] = passOn(reply);
  const failed = replies.find(({ reply }) => reply.bool("ok") !== true);
  if (failed !== undefined) {
    const code = failed.reply.number("code") ?? errorCode.InternalError;
    throw new CommandError(code, failed.reply.string("errmsg") ?? "a shard refused the command", {
      codeName: failed.reply.string("codeName") ?? codeName(code),
      extra: { raw },
    });
  }
  const concern = replies.find(({ reply }) => reply.has("writeConcernError"));
  return { raw, ...(concern === undefined ? {} : { writeConcernError: concern.reply.find("writeConcernError") }) };
}

/** The sum of a numeric field over replies. */
export function sum(docs: readonly Doc[], field: string): number {
  return docs.reduce((total, doc) => total + (doc.number(field) ?? 0), 0);
}

/** A whole number of any size: long beyond 32 bits, as the server gives it. */
export function whole(n: number): Encodable {
  return Number.isInteger(n) && Math.abs(n) >= 0x7fffffff ? BigInt(n) : n;
}
