/**
 * The ResourceProvider service of Pulumi over the SDK's own protocol files.
 *
 * Served here rather than through the SDK's provider server because that one has no way to say which fields differ, to
 * preview a create, to keep secrets secret by field, or to stop.
 */
import { isDeepStrictEqual } from "node:util";
import * as grpc from "@grpc/grpc-js";
import { Connections } from "../cluster/connections.ts";
import { AlfabravoError, type Problem } from "../model/problem.ts";
import { type Fields, formProblems, replacingFields, secretPaths, withDefaults } from "./fields.ts";
import { EngineLog } from "./progress.ts";
import {
  decodeProperties,
  encodeProperties,
  outermost,
  type Path,
  type Properties,
  UNKNOWN,
  unknownPaths,
} from "./properties.ts";
import { formatPath } from "./property-path.ts";
import { emptyMessages, pluginMessages, type provider, providerMessages, providerService } from "./protos.ts";
import type { AnyResource, FieldDiff, ResourceOperation } from "./resource.ts";
import { packageSchema } from "./schema.ts";

export interface ServerOptions {
  readonly version: string;
  readonly resources: readonly AnyResource[];
  /** Of the engine, `host:port`. */
  readonly engineAddress: string | undefined;
}

const PACKAGE = "alfabravo";
/** How long an act has to end by itself once it is told to, in milliseconds. */
const ABORT_MILLIS = 1_000;

export class ProviderServer {
  readonly #version: string;
  readonly #resources: ReadonlyMap<string, AnyResource>;
  readonly #connections = new Connections();
  readonly #stopped = new AbortController();
  #log: EngineLog;

  constructor({ version, resources, engineAddress }: ServerOptions) {
    this.#version = version;
    this.#resources = new Map(resources.map((resource) => [`${PACKAGE}:index:${resource.name}`, resource]));
    this.#log = new EngineLog(engineAddress);
  }

  /** @returns the port on which it listens, on loopback only */
  listen(): Promise<number> {
    const server = new grpc.Server({
      "grpc.max_receive_message_length": -1,
      "grpc.max_send_message_length": -1,
    });
    server.addService(providerService.ResourceProviderService, this.#service());
    return new Promise((resolve, reject) => {
      server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
        if (error) reject(error);
        else resolve(port);
      });
    });
  }

  /** Ends every wait; what is half-way converges on the next run. */
  stop(): void {
    this.#stopped.abort(
      new AlfabravoError("was stopped before it was done", { next: "run again: it goes on from here" }),
    );
  }

  async close(): Promise<void> {
    this.stop();
    this.#log.close();
    await this.#connections.close();
  }

  #service(): grpc.UntypedServiceImplementation {
    const empty = () => new emptyMessages.Empty();
    return {
      handshake: unary((request: provider.ProviderHandshakeRequest) => {
        this.#attach(request.getEngineAddress());
        return new providerMessages.ProviderHandshakeResponse().setAcceptSecrets(true);
      }),
      attach: unary((request: { getAddress(): string }) => {
        this.#attach(request.getAddress());
        return empty();
      }),
      getPluginInfo: unary(() => new pluginMessages.PluginInfo().setVersion(this.#version)),
      getSchema: unary((request: provider.GetSchemaRequest) => {
        if (request.getVersion() !== 0) throw new Error(`schema version ${request.getVersion()} is not known here`);
        const schema = packageSchema(PACKAGE, this.#version, [...this.#resources.values()]);
        return new providerMessages.GetSchemaResponse().setSchema(JSON.stringify(schema));
      }),
      checkConfig: unary((request: provider.CheckRequest) =>
        new providerMessages.CheckResponse().setInputs(request.getNews()),
      ),
      diffConfig: unary(() =>
        new providerMessages.DiffResponse().setChanges(providerMessages.DiffResponse.DiffChanges.DIFF_NONE),
      ),
      configure: unary(() => new providerMessages.ConfigureResponse().setAcceptsecrets(true).setSupportspreview(true)),
      check: unary((request: provider.CheckRequest) => this.#check(request)),
      diff: unary((request: provider.DiffRequest) => this.#diff(request)),
      create: unary((request: provider.CreateRequest) => this.#create(request)),
      read: unary((request: provider.ReadRequest) => this.#read(request)),
      update: unary((request: provider.UpdateRequest) => this.#update(request)),
      delete: unary(async (request: provider.DeleteRequest) => {
        const state = decodeProperties(request.getProperties());
        await this.#run(request.getUrn(), request.getTimeout(), (op, resource) =>
          resource.delete(op, { ...state.value }),
        );
        return empty();
      }),
      cancel: unary(() => {
        this.stop();
        return empty();
      }),
      invoke: notHere("functions"),
      call: notHere("methods"),
      construct: notHere("remote components"),
      parameterize: notHere("parameters"),
      getMapping: unary(() => new providerMessages.GetMappingResponse()),
      getMappings: unary(() => new providerMessages.GetMappingsResponse()),
      list: (call: grpc.ServerWritableStream<unknown, unknown>) => {
        call.emit("error", { code: grpc.status.UNIMPLEMENTED, details: `${PACKAGE} lists no resources` });
      },
    };
  }

  #attach(address: string): void {
    this.#log.close();
    this.#log = new EngineLog(address);
  }

  async #check(request: provider.CheckRequest): Promise<provider.CheckResponse> {
    const resource = this.#resource(request.getUrn());
    const news = decodeProperties(request.getNews());
    const inputs = withDefaults(resource.inputs, news.value);
    // A rule reads fields whose form is right, and a live cluster is asked about what no rule forbids.
    let problems: readonly Problem[] = formProblems(resource.inputs, inputs);
    if (problems.length === 0) problems = resource.rules?.(knownFields(inputs)) ?? [];
    const changed = !isDeepStrictEqual(inputs, { ...decodeProperties(request.getOlds()).value });
    if (problems.length === 0 && changed && unknownPaths(inputs).length === 0) {
      problems = await this.#preflight(request.getUrn(), inputs);
    }
    const secrets = outermost([...news.secrets, ...secretPaths(resource.inputs)]);
    return new providerMessages.CheckResponse()
      .setInputs(encodeProperties({ value: inputs, secrets }))
      .setFailuresList(problems.map((problem) => checkFailure(resource.inputs, problem)));
  }

  #preflight(urn: string, inputs: Record<string, unknown>): Promise<readonly Problem[]> {
    return this.#run(urn, 0, async (op, { preflight }) => {
      if (!preflight) return [];
      try {
        return await preflight(op, inputs);
      } catch (error) {
        op.signal.throwIfAborted();
        op.warn(`could not be checked against the cluster: ${errorText(error).split("\n")[0]}`);
        return [];
      }
    });
  }

  async #diff(request: provider.DiffRequest): Promise<provider.DiffResponse> {
    const resource = this.#resource(request.getUrn());
    const state = decodeProperties(request.getOlds()).value;
    const oldInputs = decodeProperties(request.getOldInputs()).value;
    const news = decodeProperties(request.getNews()).value;

    const unknown = unknownPaths(news);
    const inputs = withOldValues(news, unknown, oldInputs, state);
    const differences: FieldDiff[] = [
      ...(await resource.diff({ ...state }, inputs)),
      ...unknown.map((path): FieldDiff => ({ path, kind: "update" })),
    ];
    return diffResponse(differences, replacingFields(resource.inputs));
  }

  async #create(request: provider.CreateRequest): Promise<provider.CreateResponse> {
    const inputs = decodeProperties(request.getProperties());
    if (request.getPreview()) {
      const resource = this.#resource(request.getUrn());
      const { outputs } = resource;
      const value = withUnknownRest(outputs, resource.preview(knownFields(inputs.value), undefined));
      return new providerMessages.CreateResponse().setProperties(
        encodeProperties(secretOutputs(outputs, value, inputs)),
      );
    }
    return this.#run(request.getUrn(), request.getTimeout(), async (op, resource) => {
      const { id, state } = await resource.converge(op, { ...inputs.value }, undefined);
      const properties = encodeProperties(secretOutputs(resource.outputs, state, inputs));
      return new providerMessages.CreateResponse().setId(id).setProperties(properties);
    });
  }

  async #update(request: provider.UpdateRequest): Promise<provider.UpdateResponse> {
    const inputs = decodeProperties(request.getNews());
    const olds = decodeProperties(request.getOlds());
    if (request.getPreview()) {
      const resource = this.#resource(request.getUrn());
      const { outputs } = resource;
      const value = withUnknownRest(outputs, resource.preview(knownFields(inputs.value), { ...olds.value }));
      return new providerMessages.UpdateResponse().setProperties(
        encodeProperties(secretOutputs(outputs, value, inputs)),
      );
    }
    return this.#run(request.getUrn(), request.getTimeout(), async (op, resource) => {
      const { state } = await resource.converge(op, { ...inputs.value }, { ...olds.value });
      return new providerMessages.UpdateResponse().setProperties(
        encodeProperties(secretOutputs(resource.outputs, state, inputs)),
      );
    });
  }

  async #read(request: provider.ReadRequest): Promise<provider.ReadResponse> {
    const olds = decodeProperties(request.getProperties());
    const inputs = decodeProperties(request.getInputs());
    return this.#run(request.getUrn(), request.getTimeout(), async (op, resource) => {
      if (Object.keys(olds.value).length === 0) {
        throw new AlfabravoError("an id alone does not say how to reach the cluster", {
          where: request.getId(),
          next: "declare the resource and run `pulumi up`: what exists is taken over as it is",
        });
      }
      const state = await resource.read(op, { ...olds.value }, { ...inputs.value });
      if (!state) return new providerMessages.ReadResponse();
      const seen = await observedInputs(resource, inputs.value, state);
      return new providerMessages.ReadResponse()
        .setId(request.getId())
        .setProperties(encodeProperties(secretOutputs(resource.outputs, state, inputs)))
        .setInputs(encodeProperties({ value: seen, secrets: inputs.secrets }));
    });
  }

  #resource(urn: string): AnyResource {
    // urn:pulumi:<stack>::<project>::<parent types and this one, joined by $>::<name>
    const type = urn.split("::")[2]?.split("$").at(-1) ?? "";
    const resource = this.#resources.get(type);
    if (resource) return resource;
    throw new AlfabravoError(`there is no resource of the type ${JSON.stringify(type)}`, {
      where: urn,
      next: `use one of: ${[...this.#resources.keys()].join(", ")}`,
    });
  }

  /** @param timeoutSecs 0: no bound of its own */
  async #run<T>(
    urn: string,
    timeoutSecs: number,
    act: (op: ResourceOperation, resource: AnyResource) => Promise<T>,
  ): Promise<T> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(timeoutError(timeoutSecs)), timeoutSecs * 1000);
    if (timeoutSecs <= 0) clearTimeout(timer);
    const op: ResourceOperation = {
      connections: this.#connections,
      progress: (text) => this.#log.status(urn, text),
      warn: (text) => this.#log.warning(urn, text),
      signal: AbortSignal.any([this.#stopped.signal, timeout.signal]),
    };
    try {
      return await endedBy(op.signal, act(op, this.#resource(urn)));
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * The act's outcome, or the reason of the abort when that comes first: a command in flight hears of no signal. Its own
 * end is then nobody's business any more.
 */
async function endedBy<T>(signal: AbortSignal, act: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  // An act that waits for the signal itself says more of where it was; it gets a turn to do so.
  const abort = () => setTimeout(() => reject(signal.reason), ABORT_MILLIS);
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([act, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    // What loses may still fail.
    act.catch(() => {});
    promise.catch(() => {});
  }
}

function timeoutError(seconds: number): AlfabravoError {
  return new AlfabravoError(`did not end within ${seconds} s, the timeout of this resource`, {
    next: "run again: it goes on from here; or give it more time with the resource option customTimeouts",
  });
}

/** The fields that hold no unknown value, at any depth. */
function knownFields(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, item]) => unknownPaths(item).length === 0));
}

/** Each field that holds an unknown value gets its old one, so that the comparison sees no difference there. */
function withOldValues(
  news: Readonly<Record<string, unknown>>,
  unknown: readonly Path[],
  oldInputs: Readonly<Record<string, unknown>>,
  state: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const inputs: Record<string, unknown> = { ...news };
  for (const name of new Set(unknown.map(([first]) => String(first)))) {
    const old = state[name] ?? oldInputs[name];
    if (old === undefined) delete inputs[name];
    else inputs[name] = old;
  }
  return inputs;
}

function withUnknownRest(outputs: AnyResource["outputs"], known: Readonly<Record<string, unknown>>) {
  const result: Record<string, unknown> = {};
  for (const name of Object.keys(outputs)) result[name] = Object.hasOwn(known, name) ? known[name] : UNKNOWN;
  return result;
}

/** Secret is what the table says, and whatever came in as a secret and lies at the same place. */
function secretOutputs(
  outputs: AnyResource["outputs"],
  value: Readonly<Record<string, unknown>>,
  inputs: Properties,
): Properties {
  return { value, secrets: outermost([...secretPaths(outputs), ...inputs.secrets]) };
}

/** The declared inputs, with what was seen in place of the fields that differ. */
async function observedInputs(
  resource: AnyResource,
  inputs: Readonly<Record<string, unknown>>,
  state: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const result: Record<string, unknown> = { ...inputs };
  for (const { path } of await resource.diff({ ...state }, result)) {
    const name = String(path[0]);
    if (Object.hasOwn(inputs, name) && state[name] !== undefined) result[name] = state[name];
  }
  return result;
}

/**
 * The engine writes a named property's value beside the reason, so only a whole field that is no secret is named; any
 * other place is part of the reason.
 */
function checkFailure(inputs: Fields, { path, message, rule, fix }: Problem): provider.CheckFailure {
  const reason = [message, rule && `why: ${rule}`, fix && `fix: ${fix}`].filter(Boolean).join("; ");
  const field = Object.hasOwn(inputs, path) ? inputs[path] : undefined;
  const named = field !== undefined && !field.secret;
  return new providerMessages.CheckFailure()
    .setProperty(named ? path : "")
    .setReason(named ? reason : `${path} ${reason}`);
}

function diffResponse(differences: readonly FieldDiff[], replacing: ReadonlySet<string>): provider.DiffResponse {
  const { PropertyDiff, DiffResponse } = providerMessages;
  const { ADD, ADD_REPLACE, DELETE, DELETE_REPLACE, UPDATE, UPDATE_REPLACE } = PropertyDiff.Kind;
  const kinds = {
    add: [ADD, ADD_REPLACE],
    delete: [DELETE, DELETE_REPLACE],
    update: [UPDATE, UPDATE_REPLACE],
  } as const;
  const response = new DiffResponse()
    .setHasdetaileddiff(true)
    // Two of the same thing cannot live side by side: they would share a port, a name or a namespace.
    .setDeletebeforereplace(true)
    .setChanges(differences.length > 0 ? DiffResponse.DiffChanges.DIFF_SOME : DiffResponse.DiffChanges.DIFF_NONE);
  for (const { path, kind, replace } of differences) {
    const name = String(path[0]);
    const replaces = replace ?? replacing.has(name);
    const text = formatPath(path);
    // One item of a list goes and another comes in its place: to the engine that is one place with another value.
    const marked = response.getDetaileddiffMap().has(text) ? "update" : kind;
    response.getDetaileddiffMap().set(text, new PropertyDiff().setKind(kinds[marked][replaces ? 1 : 0]));
    if (!response.getDiffsList().includes(name)) response.addDiffs(name);
    if (replaces) response.addReplaces(text);
  }
  return response;
}

/** Answers a call; an error for people becomes its text. */
function unary<Request, Response>(
  act: (request: Request) => Response | Promise<Response>,
): grpc.handleUnaryCall<Request, Response> {
  return (call, callback) => {
    Promise.resolve()
      .then(() => act(call.request))
      .then(
        (response) => callback(null, response),
        (error: unknown) => callback({ code: grpc.status.UNKNOWN, details: errorText(error) }),
      );
  };
}

function notHere(what: string): grpc.handleUnaryCall<unknown, unknown> {
  return (_call, callback) => callback({ code: grpc.status.UNIMPLEMENTED, details: `${PACKAGE} has no ${what}` });
}

export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "AbortError" && error.cause instanceof AlfabravoError) return errorText(error.cause);
  const lines = [error.message];
  if (error instanceof AlfabravoError) {
    if (error.where && !error.message.includes(error.where)) lines.push(`where: ${error.where}`);
    if (error.next) lines.push(`next: ${error.next}`);
  }
  return lines.join("\n");
}
