/** hello, login and logout. Logins are relayed to a config server, where the users live. */
import { randomBytes } from "node:crypto";
import { bsonType, type Doc, DocWriter, encode, type Fields, Value } from "../bson/document.ts";
import type { ClusterRouter } from "../cluster-router.ts";
import type { ClientConnection, CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import type { ClientState } from "../server/listener.ts";
import { ServerConnection } from "../wire/connection.ts";
import type { CommandTable } from "./registry.ts";

const processId = new Value(bsonType.objectId, randomBytes(12), 0, 12);
const topologyVersion = encode({ processId, counter: 0n });

/** A login under way: the connection to the config server that it goes through. */
interface Login {
  readonly connection: ServerConnection;
  readonly user: string;
  readonly db: string;
}

const clientOf = (ctx: CommandContext): ClientState => ctx.client as ClientState;

function dropLogin(client: ClientState): void {
  (client.login as Login | undefined)?.connection.close();
  client.login = undefined;
}

/** User name of a SCRAM first message (`n,,n=user,r=nonce`). */
function scramUser(payload: Value | undefined): string {
  if (payload?.type !== bsonType.binData) return "";
  const text = payload.bytes.toString("utf8", payload.start + 5, payload.end);
  const user = /(?:^|,)n=([^,]*)/.exec(text.replace(/^[ny],[^,]*,/, ""))?.[1] ?? "";
  return user.replaceAll("=2C", ",").replaceAll("=3D", "=");
}

async function saslStart(ctx: CommandContext, body: Doc, db: string): Promise<Doc> {
  const client = clientOf(ctx);
  dropLogin(client);
  const mechanism = body.string("mechanism") ?? "";
  if (mechanism !== "SCRAM-SHA-256" && mechanism !== "SCRAM-SHA-1")
    throw new CommandError(334, `Unsupported mechanism '${mechanism}' on authentication database '${db}'`, {
      codeName: "MechanismUnavailable",
    });
  const router = ctx.router as ClusterRouter;
  const host = await router.config.monitor.select(ctx, { mode: "primaryPreferred", tags: [] });
  const connection = await ServerConnection.open(host, {
    key: undefined,
    applicationName: "login",
    connectTimeoutMs: 10_000,
  });
  const login: Login = { connection, user: scramUser(body.find("payload")), db };
  client.login = login;
  client.gone.addEventListener("abort", () => connection.close(), { once: true });
  return proceed(
    client,
    login,
    encode({
      saslStart: 1,
      mechanism,
      payload: body.find("payload"),
      options: body.find("options"),
      $db: db,
    }),
  );
}

async function saslContinue(ctx: CommandContext): Promise<Doc> {
  const client = clientOf(ctx);
  const login = client.login as Login | undefined;
  if (login === undefined) throw new CommandError(17, "No SASL session state found", { codeName: "ProtocolError" });
  return proceed(
    client,
    login,
    encode({
      saslContinue: 1,
      conversationId: ctx.body.find("conversationId"),
      payload: ctx.body.find("payload"),
      $db: login.db,
    }),
  );
}

async function proceed(client: ClientState, login: Login, command: Doc): Promise<Doc> {
  let reply: Doc;
  try {
    reply = await login.connection.send(command);
  } catch (error) {
    dropLogin(client);
    throw error;
  }
  if (reply.number("ok") !== 1) {
    dropLogin(client);
    throw CommandError.fromReply(reply);
  }
  if (reply.bool("done") === true) {
    client.users.set(login.db, { user: login.user, db: login.db });
    dropLogin(client);
  }
  return reply.without("$clusterTime", "operationTime");
}

/** Is the client logged in as the cluster's own user (it knows the keyfile)? */
export function isSaslMember(client: ClientConnection): boolean {
  return client.users.get("local")?.user === "__system";
}

async function hello(ctx: CommandContext): Promise<Doc> {
  const { body } = ctx;
  const client = clientOf(ctx);
  const given = body.doc("topologyVersion");
  const wait = body.number("maxAwaitTimeMS");
  if (given !== undefined && wait !== undefined) {
    const id = given.find("processId");
    const same = id !== undefined && id.bytes.compare(processId.bytes, 0, 12, id.start, id.end) === 0;
    if (same) await pause(wait, client.gone);
  }
  const metadata = body.doc("client");
  if (metadata !== undefined && client.metadata === undefined) client.metadata = metadata.detached();
  const isHello = body.first()?.name === "hello";
  const out = new DocWriter()
    .append("helloOk", body.bool("helloOk") === true ? true : undefined)
    .append(isHello ? "isWritablePrimary" : "ismaster", true)
    .append("msg", "isdbgrid")
    .append("topologyVersion", topologyVersion)
    .append("maxBsonObjectSize", 16 * 1024 * 1024)
    .append("maxMessageSizeBytes", 48_000_000)
    .append("maxWriteBatchSize", 100_000)
    .append("localTime", new Date())
    .append("logicalSessionTimeoutMinutes", 30)
    .append("connectionId", client.id)
    .append("maxWireVersion", 17)
    .append("minWireVersion", 0);
  const mechanisms = body.string("saslSupportedMechs");
  if (mechanisms !== undefined) {
    const supported = await supportedMechanisms(ctx, mechanisms);
    if (supported !== undefined) out.append("saslSupportedMechs", supported);
  }
  const speculative = body.doc("speculativeAuthenticate");
  if (speculative?.has("saslStart") === true) {
    try {
      const db = speculative.string("db") ?? "admin";
      const reply = await saslStart(ctx, speculative, db);
      out.append("speculativeAuthenticate", reply.without("ok"));
    } catch {
      // The client then logs in step by step and gets the reason.
    }
  }
  return out.finish();
}

async function pause(ms: number, gone: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  gone.addEventListener("abort", () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
}

async function supportedMechanisms(ctx: CommandContext, user: string): Promise<Value | undefined> {
  try {
    const router = ctx.router as ClusterRouter;
    const question: Fields = { hello: 1, saslSupportedMechs: user };
    const reply = await router.config.run(ctx, "admin", question, {
      withoutSession: true,
      idempotent: true,
      readPreference: { mode: "primaryPreferred", tags: [] },
    });
    return reply.find("saslSupportedMechs");
  } catch {
    return undefined;
  }
}

export const authenticationCommands: CommandTable = {
  hello: { aliases: ["isMaster", "ismaster"], requires: "public", handler: hello },
  saslStart: { requires: "public", handler: (ctx) => saslStart(ctx, ctx.body, ctx.db) },
  saslContinue: { requires: "public", handler: saslContinue },
  authenticate: {
    requires: "public",
    handler: async (ctx) => {
      throw new CommandError(334, `Unsupported mechanism '${ctx.body.string("mechanism") ?? ""}'`, {
        codeName: "MechanismUnavailable",
      });
    },
  },
  logout: {
    requires: "public",
    handler: async (ctx) => {
      ctx.client.users.delete(ctx.db);
      return {};
    },
  },
  ping: { requires: "public", inTransaction: false, handler: async () => ({}) },
};
