/** From a client's command to its answer: look-up, checks, context, handler, reply fields. */

import { type Doc, DocWriter, encode, InvalidBson, Value } from "../bson/document.ts";
import type { ClusterRouter } from "../cluster-router.ts";
import { isSaslMember } from "../commands/authentication.ts";
import type { CommandDefinition } from "../commands/registry.ts";
import { CommandContext, Deadline, type Reply } from "../context.ts";
import { CommandError, errorCode, gossip } from "../errors.ts";
import { log } from "../log.ts";
import { parseReadPreference } from "../topology/read-preference.ts";
import { NetworkError } from "../wire/connection.ts";
import { type IncomingCommand, inlineSequences } from "../wire/message.ts";
import type { Answer, ClientState } from "./listener.ts";
import { maxTimeMs, sessionFields } from "./session.ts";

const hidden: ReadonlySet<string> = new Set([...gossip, "$host", "readOnly"]);
const ok = Value.double(1);

export class Dispatcher {
  readonly #router: ClusterRouter;
  readonly #authentication: boolean;

  /** `authentication`: false when the cluster runs without a keyfile, everyone may do everything. */
  constructor(router: ClusterRouter, authentication: boolean) {
    this.#router = router;
    this.#authentication = authentication;
  }

  async dispatch(client: ClientState, command: IncomingCommand): Promise<Answer> {
    const name = command.body.first()?.name ?? "";
    let ctx: CommandContext | undefined;
    try {
      const db = command.legacyDb ?? command.body.string("$db");
      if (db === undefined) throw new CommandError(40571, "OP_MSG requests require a $db argument");
      const found = this.#router.commands.find(name);
      if (found === undefined) throw new CommandError(errorCode.CommandNotFound, `no such command: '${name}'`);
      ctx = await this.#context(client, command, db, found.name, found.definition);
      const reply = await this.#run(ctx, client, command, found.definition);
      return this.#withNext(client, command, this.#finish(ctx, reply));
    } catch (error) {
      return { reply: this.#finish(ctx, await this.#failure(ctx, error, name)) };
    }
  }

  async #context(
    client: ClientState,
    command: IncomingCommand,
    db: string,
    name: string,
    definition: CommandDefinition,
  ): Promise<CommandContext> {
    const { body } = command;
    const time = body.find("$clusterTime");
    if (time !== undefined) this.#router.advanceClusterTime(time);
    const ms = name === "hello" || name === "getMore" ? undefined : maxTimeMs(body);
    const [user] = client.users.values();
    const session = definition.requires === "public" ? undefined : sessionFields(body, user);
    let sequences = command.sequences;
    let whole = body;
    if (sequences.size > 0 && !takesSequences.has(name)) {
      whole = inlineSequences(body, sequences);
      sequences = new Map();
    }
    const readConcern = body.doc("readConcern");
    return new CommandContext(this.#router, {
      client,
      name,
      db,
      body: whole,
      sequences,
      deadline: ms === undefined ? Deadline.none : Deadline.in(ms),
      session,
      readPreference: parseReadPreference(body.doc("$readPreference")),
      readConcern: readConcern?.isEmpty() === true ? undefined : readConcern,
      writeConcern: writeConcernOf(body),
      comment: body.find("comment"),
      signal: client.gone,
    });
  }

  async #run(
    ctx: CommandContext,
    client: ClientState,
    command: IncomingCommand,
    definition: CommandDefinition,
  ): Promise<Reply> {
    if (definition.adminOnly === true && ctx.db !== "admin")
      throw new CommandError(errorCode.Unauthorized, `${ctx.name} may only be run against the admin database.`);
    await this.#authorize(ctx, client, definition);
    if (definition.requires !== "public") await this.#router.loadDefaults(ctx);
    if (ctx.inTransaction) {
      this.#checkTransaction(ctx, definition);
      this.#router.transactions.begin(ctx, ctx.name);
    }
    void command;
    return definition.handler(ctx);
  }

  async #authorize(ctx: CommandContext, client: ClientState, definition: CommandDefinition): Promise<void> {
    if (!this.#authentication || definition.requires === "public") return;
    if (client.users.size === 0) {
      if (client.loopback && localhostException.has(ctx.name) && ctx.db === "admin" && !(await this.#anyUser(ctx)))
        return;
      throw new CommandError(errorCode.Unauthorized, `command ${ctx.name} requires authentication`);
    }
    if (definition.requires === "authenticated" || isSaslMember(client)) return;
    await this.#router.privilegeCheck?.(ctx, definition.requires(ctx));
  }

  async #anyUser(ctx: CommandContext): Promise<boolean> {
    const users = await this.#router.config.find(ctx, { db: "admin", collection: "system.users" }, { limit: 1 });
    return users.length > 0;
  }

  #checkTransaction(ctx: CommandContext, definition: CommandDefinition): void {
    if (definition.inTransaction !== true)
      throw new CommandError(
        errorCode.OperationNotSupportedInTransaction,
        `Cannot run '${ctx.name}' in a multi-document transaction.`,
      );
    const ends = ctx.name === "commitTransaction" || ctx.name === "abortTransaction";
    if (ctx.writeConcern !== undefined && !ends)
      throw new CommandError(
        errorCode.InvalidOptions,
        "writeConcern is not allowed within a multi-statement transaction",
      );
    if (ctx.readConcern !== undefined && ctx.session?.startTransaction !== true)
      throw new CommandError(
        errorCode.InvalidOptions,
        "Only the first command in a transaction may specify a readConcern",
      );
    if (ctx.readPreference.mode !== "primary")
      throw new CommandError(errorCode.InvalidOptions, "Read preference in a transaction must be primary");
    if ((ctx.db === "config" || ctx.db === "local" || ctx.db === "admin") && !ends && definition.write === true)
      throw new CommandError(
        errorCode.OperationNotSupportedInTransaction,
        `Cannot run command against the '${ctx.db}' database in a transaction.`,
      );
  }

  /** The error's reply; a transaction ends with any error of one of its statements. */
  async #failure(ctx: CommandContext | undefined, raw: unknown, name: string): Promise<Doc> {
    const error = asCommandError(raw, name);
    if (ctx?.inTransaction === true && name !== "commitTransaction" && name !== "abortTransaction")
      await this.#router.abortImplicitly(ctx);
    return error.toReply();
  }

  #finish(ctx: CommandContext | undefined, reply: Reply): Doc {
    const doc = encode(reply);
    const out = new DocWriter(doc.bytes.length + 256);
    let hasOk = false;
    for (const element of doc) {
      if (element.name === "ok") hasOk = true;
      if (!hidden.has(element.name)) out.element(element);
    }
    if (!hasOk) out.append("ok", ok);
    if (ctx !== undefined) {
      if (ctx.inTransaction) {
        const token = this.#router.transactions.of(ctx)?.coordinator;
        if (token !== undefined) out.append("recoveryToken", { recoveryShardId: token });
      }
      out.append("operationTime", ctx.operationTime);
    }
    const time = this.#router.clusterTime;
    if (ctx !== undefined && time !== undefined && (ctx.client.users.size > 0 || !this.#authentication)) {
      out.append("$clusterTime", time);
      if (ctx.operationTime === undefined) out.append("operationTime", time.doc().find("clusterTime"));
    }
    return out.finish();
  }

  #withNext(client: ClientState, command: IncomingCommand, reply: Doc): Answer {
    const isStreaming =
      command.exhaustAllowed && command.body.has("topologyVersion") && command.body.has("maxAwaitTimeMS");
    return isStreaming ? { reply, next: () => this.dispatch(client, command) } : { reply };
  }
}

const takesSequences: ReadonlySet<string> = new Set(["insert", "update", "delete"]);
const localhostException: ReadonlySet<string> = new Set(["createUser", "createRole"]);

function writeConcernOf(body: Doc): Doc | undefined {
  const given = body.find("writeConcern");
  if (given === undefined) return undefined;
  if (!given.isObject())
    throw new CommandError(errorCode.TypeMismatch, '"writeConcern" had the wrong type. Expected object');
  const doc = given.doc();
  return doc.isEmpty() ? undefined : doc;
}

/** Any thrown thing as an error for the client. Unexpected ones are logged with their stack. */
export function asCommandError(raw: unknown, name: string): CommandError {
  if (raw instanceof CommandError) return raw;
  if (raw instanceof NetworkError) return new CommandError(errorCode.HostUnreachable, raw.message, { cause: raw });
  if (raw instanceof InvalidBson) return new CommandError(22, raw.message, { codeName: "InvalidBSON" });
  log("E", "COMMAND", "Command failed unexpectedly", {
    command: name,
    error: raw instanceof Error ? (raw.stack ?? raw.message) : String(raw),
  });
  return new CommandError(
    errorCode.InternalError,
    `${name} failed inside the router: ${raw instanceof Error ? raw.message : String(raw)}; its log has the details`,
  );
}
