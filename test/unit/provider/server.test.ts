import { credentials, type ServiceError } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AlfabravoError } from "../../../infra/model/problem.ts";
import { valueDiff } from "../../../infra/provider/diff.ts";
import { decodeProperties, encodeProperties, type Path, UNKNOWN } from "../../../infra/provider/properties.ts";
import { emptyMessages, type provider, providerMessages, providerService } from "../../../infra/provider/protos.ts";
import { erased, type Resource } from "../../../infra/provider/resource.ts";
import { resources } from "../../../infra/provider/resources/index.ts";
import { ProviderServer } from "../../../infra/provider/server.ts";

interface Inputs {
  readonly name: string;
  readonly size: number;
  readonly tags?: Readonly<Record<string, string>> | undefined;
  readonly password?: string | undefined;
}

interface State extends Inputs {
  readonly token: string;
}

/** The things that exist, by name. The server only ever sees the interface of a resource. */
let world: Map<string, State>;

const fields = {
  name: { type: "string", pattern: /^[a-z]+$/, patternSays: "small letters", description: "Its name.", replaces: true },
  size: { type: "number", integer: true, min: 1, max: 9, default: 3, description: "Its size." },
  tags: { type: "map", values: { type: "string" }, required: false, description: "Its tags." },
  password: { type: "string", required: false, secret: true, description: "Its password." },
} as const;

const thing: Resource<Inputs, State> = {
  name: "Thing",
  description: "A thing.",
  inputs: fields,
  outputs: { ...fields, token: { type: "string", secret: true, description: "Made for it." } },
  rules: ({ name, size }) =>
    name === "tiny" && size === 9 ? [{ path: "size", message: "is too much for tiny", rule: "tiny is small" }] : [],
  diff: (state, news) =>
    (["name", "size", "tags", "password"] as const).flatMap((f) => valueDiff([f], state[f], news[f])),
  preview: (known, state) => ({ ...known, ...(state ? { token: state.token } : {}) }),
  async converge(op, news) {
    if (news.name === "wait") {
      await new Promise((_, reject) => op.signal.addEventListener("abort", () => reject(op.signal.reason)));
    }
    if (news.name === "deaf") await new Promise(() => {});
    if (news.name === "bad")
      throw new AlfabravoError("bad things cannot be", { where: "here", next: "choose another" });
    const state = { ...news, token: `token of ${news.name}` };
    world.set(news.name, state);
    return { id: news.name, state };
  },
  read: async (_op, state) => world.get(state.name),
  async delete(_op, state) {
    world.delete(state.name);
  },
};

const URN = "urn:pulumi:dev::project::parent:index:Parent$alfabravo:index:Thing::it";
let server: ProviderServer;
let client: InstanceType<typeof providerService.ResourceProviderClient>;

beforeEach(async () => {
  world = new Map();
  server = new ProviderServer({ version: "1.2.3", resources: [erased(thing)], engineAddress: undefined });
  client = new providerService.ResourceProviderClient(
    `127.0.0.1:${await server.listen()}`,
    credentials.createInsecure(),
  );
});

afterEach(async () => {
  client.close();
  await server.close();
});

/** One call of the service; `send` gets the callback. */
function ask<Response>(send: (done: (error: ServiceError | null, response: Response) => void) => unknown) {
  return new Promise<Response>((resolve, reject) => {
    send((error, response) => (error ? reject(new Error(error.details)) : resolve(response)));
  });
}

const map = (value: Record<string, unknown>, secrets: readonly Path[] = []) => encodeProperties({ value, secrets });

async function check(news: Record<string, unknown>, secrets: readonly Path[] = []) {
  const request = new providerMessages.CheckRequest().setUrn(URN).setNews(map(news, secrets));
  const response = await ask<provider.CheckResponse>((done) => client.check(request, done));
  return {
    inputs: decodeProperties(response.getInputs()),
    failures: response.getFailuresList().map((f) => [f.getProperty(), f.getReason()]),
  };
}

async function diff(olds: Record<string, unknown>, news: Record<string, unknown>, oldInputs = olds) {
  const request = new providerMessages.DiffRequest().setUrn(URN).setId("it");
  request.setOlds(map(olds)).setNews(map(news)).setOldInputs(map(oldInputs));
  const response = await ask<provider.DiffResponse>((done) => client.diff(request, done));
  const names = new Map(
    Object.entries(providerMessages.PropertyDiff.Kind).map(([name, kind]) => [kind as number, name]),
  );
  return {
    changes: response.getChanges() === providerMessages.DiffResponse.DiffChanges.DIFF_SOME,
    detailed: Object.fromEntries(
      [...response.getDetaileddiffMap().entries()].map(([path, d]) => [path, names.get(d.getKind())]),
    ),
    replaces: response.getReplacesList(),
  };
}

describe("check", () => {
  test("reports every mistake at once, each with its path", async () => {
    const { failures } = await check({ size: 1.5, tags: { a: 1, b: "ok", c: [] }, colour: "red" });
    expect(failures).toEqual([
      ["name", "is missing; fix: give it: Its name."],
      ["size", "is 1.5; it must be a whole number"],
      ["", "tags.a must be text, not a number"],
      ["", "tags.c must be text, not a list"],
      ["", "colour is not a field here; fix: use one of: name, size, tags, password"],
    ]);
  });

  test("never has the engine write a secret value beside the reason", async () => {
    expect((await check({ name: "a", password: 7 })).failures).toEqual([["", "password must be text, not a number"]]);
  });

  test("applies rules once the form is right, with the reason", async () => {
    expect((await check({ name: "tiny", size: 9 })).failures).toEqual([
      ["size", "is too much for tiny; why: tiny is small"],
    ]);
  });

  test("takes unknown values for right, fills in defaults and keeps secrets secret", async () => {
    const { inputs, failures } = await check({ name: UNKNOWN, tags: { a: UNKNOWN, b: "s" }, password: "p" }, [
      ["tags", "b"],
    ]);
    expect(failures).toEqual([]);
    expect(inputs.value).toEqual({ name: UNKNOWN, size: 3, tags: { a: UNKNOWN, b: "s" }, password: "p" });
    expect(inputs.secrets).toEqual([["password"], ["tags", "b"]]);
  });

  test("does not call a missing optional field a mistake, nor null in its place", async () => {
    const { inputs, failures } = await check({ name: "a", tags: null });
    expect(failures).toEqual([]);
    expect(inputs.value).toEqual({ name: "a", size: 3 });
  });
});

describe("diff", () => {
  const state = { name: "a", size: 3, tags: { x: "1" }, token: "t" };

  test("is empty when nothing changed", async () => {
    expect(await diff(state, { name: "a", size: 3, tags: { x: "1" } })).toEqual({
      changes: false,
      detailed: {},
      replaces: [],
    });
  });

  test("marks each field as added, deleted, updated or in need of a replacement", async () => {
    expect(await diff(state, { name: "b", size: 4, password: "p" })).toEqual({
      changes: true,
      detailed: { name: "UPDATE_REPLACE", size: "UPDATE", tags: "DELETE", password: "ADD" },
      replaces: ["name"],
    });
  });

  test("marks the very place of an unknown value and nothing else", async () => {
    expect(await diff(state, { name: "a", size: 3, tags: { x: UNKNOWN } })).toEqual({
      changes: true,
      detailed: { "tags.x": "UPDATE" },
      replaces: [],
    });
  });
});

describe("create, update, read, delete", () => {
  const create = (value: Record<string, unknown>, preview = false, secrets: readonly Path[] = []) =>
    ask<provider.CreateResponse>((done) =>
      client.create(
        new providerMessages.CreateRequest().setUrn(URN).setPreview(preview).setProperties(map(value, secrets)),
        done,
      ),
    );

  test("a preview knows what is known, says what is not, and does nothing", async () => {
    const response = await create({ name: "a", size: 3, tags: { x: UNKNOWN } }, true);
    expect(decodeProperties(response.getProperties()).value).toEqual({
      name: "a",
      size: 3,
      tags: UNKNOWN,
      password: UNKNOWN,
      token: UNKNOWN,
    });
    expect(world.size).toBe(0);
  });

  test("outputs are secret by the table and where the inputs were", async () => {
    const response = await create({ name: "a", size: 3, tags: { x: "1" } }, false, [["tags", "x"]]);
    expect(response.getId()).toBe("a");
    const { value, secrets } = decodeProperties(response.getProperties());
    expect(value).toEqual({ name: "a", size: 3, tags: { x: "1" }, token: "token of a" });
    expect(secrets).toEqual([["tags", "x"], ["token"]]);
  });

  test("what is gone is read as no id; what drifted is in the inputs and the state", async () => {
    await create({ name: "a", size: 3 });
    const read = () =>
      ask<provider.ReadResponse>((done) =>
        client.read(
          new providerMessages.ReadRequest()
            .setUrn(URN)
            .setId("a")
            .setProperties(map({ name: "a", size: 3, token: "token of a" }))
            .setInputs(map({ name: "a", size: 3 })),
          done,
        ),
      );
    world.set("a", { name: "a", size: 7, token: "token of a" });
    const drifted = await read();
    expect(decodeProperties(drifted.getInputs()).value).toEqual({ name: "a", size: 7 });
    expect(decodeProperties(drifted.getProperties()).value).toMatchObject({ size: 7 });
    const gone = new providerMessages.DeleteRequest()
      .setUrn(URN)
      .setId("a")
      .setProperties(map({ name: "a" }));
    await ask((done) => client.delete(gone, done));
    expect((await read()).getId()).toBe("");
  });

  test("an error says what, where and the next step, without a stack trace", async () => {
    await expect(create({ name: "bad", size: 1 })).rejects.toThrow(
      /^bad things cannot be\nwhere: here\nnext: choose another$/,
    );
  });

  test("cancel ends what waits, with the next step", async () => {
    const waiting = expect(create({ name: "wait", size: 1 })).rejects.toThrow(
      /was stopped before it was done\nnext: run again/,
    );
    // Sent on the same connection afterwards, so the create is under way.
    await ask((done) => client.cancel(new emptyMessages.Empty(), done));
    await waiting;
  });

  test("a timeout of the resource ends it as well", async () => {
    const request = new providerMessages.CreateRequest()
      .setUrn(URN)
      .setTimeout(0.05)
      .setProperties(map({ name: "wait", size: 1 }));
    await expect(ask((done) => client.create(request, done))).rejects.toThrow(/did not end within 0.05 s/);
  });

  test("both end what hears of no signal, too", async () => {
    const request = new providerMessages.CreateRequest()
      .setUrn(URN)
      .setTimeout(0.05)
      .setProperties(map({ name: "deaf", size: 1 }));
    await expect(ask((done) => client.create(request, done))).rejects.toThrow(/did not end within 0.05 s/);
    const waiting = expect(create({ name: "deaf", size: 1 })).rejects.toThrow(/was stopped before it was done/);
    await ask((done) => client.cancel(new emptyMessages.Empty(), done));
    await waiting;
  });
});

test("the schema lists every resource with its fields, and marks secrets", async () => {
  const whole = new ProviderServer({ version: "1.2.3", resources, engineAddress: undefined });
  const other = new providerService.ResourceProviderClient(
    `127.0.0.1:${await whole.listen()}`,
    credentials.createInsecure(),
  );
  try {
    const text = await new Promise<string>((resolve, reject) =>
      other.getSchema(new providerMessages.GetSchemaRequest(), (error, r) =>
        error ? reject(error) : resolve(r.getSchema()),
      ),
    );
    const schema = JSON.parse(text);
    expect(Object.keys(schema.resources)).toEqual(resources.map((r) => `alfabravo:index:${r.name}`));
    expect(schema.resources["alfabravo:index:User"].properties.password).toMatchObject({
      type: "string",
      secret: true,
    });
    const references = [...text.matchAll(/"\$ref":"#\/types\/([^"]+)"/g)].map(([, name]) => name ?? "");
    expect(references.length).toBeGreaterThan(5);
    for (const name of references) expect(schema.types).toHaveProperty([name]);
  } finally {
    other.close();
    await whole.close();
  }
});
