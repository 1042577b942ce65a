import { expect, test } from "vitest";
import { stackToCreate } from "../../../toolchain/pulumi-cli/stacks.ts";

const isNew = (name: string) => name === "local";

test.each<[string, string | undefined]>([
  ["up -s local", "local"],
  ["preview --stack local --diff", "local"],
  ["refresh --stack=local", "local"],
  ["--color never up -s local", undefined],
  ["up -s other", undefined],
  ["up", undefined],
  ["up -s", undefined],
  ["stack rm -s local", undefined],
  ["cancel -s local", undefined],
  ["up -s local -C elsewhere", undefined],
  ["up -s local --cwd=elsewhere", undefined],
])("pulumi %s creates %s", (command, expected) => {
  expect(stackToCreate(command.split(" "), isNew)).toBe(expected);
});
