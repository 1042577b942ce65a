import { expect, test } from "vitest";
import { AlfabravoError } from "../../../infra/model/problem.ts";
import { formatFailure } from "../../../scripts/support/outcome.ts";

test("a failure says what, where, why and the next step, each once", () => {
  const cause = new Error("connect ECONNREFUSED 127.0.0.1:27017", { cause: new Error("socket closed") });
  const error = new AlfabravoError("the router does not answer", {
    where: "127.0.0.1:27017",
    next: "start it",
    cause,
  });
  expect(formatFailure(error).split("\n")).toEqual([
    "error: the router does not answer",
    "  where: 127.0.0.1:27017",
    "  why:   connect ECONNREFUSED 127.0.0.1:27017",
    "  why:   socket closed",
    "  next:  start it",
  ]);
});

test("what the message already says is not said again", () => {
  const error = new AlfabravoError("could not connect at db:1: refused", {
    where: "db:1",
    cause: new Error("refused"),
  });
  expect(formatFailure(error)).toBe("error: could not connect at db:1: refused");
});
