import { expect, test } from "vitest";
import { Connections } from "../../../infra/cluster/connections.ts";
import type { Operation } from "../../../infra/cluster/context.ts";
import type { Connection } from "../../../infra/model/connection.ts";
import { batched } from "../../../infra/provider/batch.ts";

const op: Operation = {
  connections: new Connections(),
  progress: () => undefined,
  signal: new AbortController().signal,
};
const at = (host: string): Connection => ({ hosts: [host], credential: { kind: "keyfile", keyfile: "k" } });

test("questions at the same time become one for each connection; later ones are asked anew", async () => {
  const asked: [string | undefined, readonly string[]][] = [];
  let generation = 1;
  const look = batched(
    async (_op, connection, keys) => {
      asked.push([connection.hosts[0], keys]);
      return keys.filter((key) => key !== "missing").map((key) => ({ key, generation }));
    },
    (value) => value.key,
  );
  const answers = await Promise.all([
    look(op, at("a"), "x"),
    look(op, at("a"), "y"),
    look(op, at("b"), "x"),
    look(op, at("a"), "x"),
    look(op, at("a"), "missing"),
  ]);
  expect(answers.map((answer) => answer?.key)).toEqual(["x", "y", "x", "x", undefined]);
  expect(asked).toEqual([
    ["a", ["x", "y", "missing"]],
    ["b", ["x"]],
  ]);
  generation = 2;
  expect(await look(op, at("a"), "x")).toEqual({ key: "x", generation: 2 });
});

test("an error reaches everyone who asked, and nobody who asks later", async () => {
  let broken = true;
  const look = batched(
    async (_op, _connection, keys) => {
      if (broken) throw new Error("down");
      return keys;
    },
    (key) => key,
  );
  const both = await Promise.allSettled([look(op, at("a"), "x"), look(op, at("a"), "y")]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  broken = false;
  expect(await look(op, at("a"), "x")).toBe("x");
});
