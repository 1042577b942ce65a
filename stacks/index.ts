/** Picks the environment by the stack: the same declaration runs on local processes, in containers and on Atlas. */
import * as pulumi from "@pulumi/pulumi";
import { InvalidDeclarationError } from "../infra/model/index.ts";
import { deployLocal } from "./local.ts";

/** The stack's configuration names it, or the stack's own name does: `local`, and `local-` with anything behind. */
const environment = new pulumi.Config().get("environment") || pulumi.getStack().replace(/-.*/, "");

// Loaded late, so that mistakes in the declaration are told as a list and not as a stack trace.
const { reference } = await import("./reference.ts").catch((error: unknown) => {
  throw error instanceof InvalidDeclarationError ? new pulumi.RunError(error.message) : error;
});

function deploy() {
  switch (environment) {
    case "local":
      return deployLocal(reference);
    case "docker":
    case "atlas":
      throw new pulumi.RunError(`the environment "${environment}" is not there yet: use the stack "local"`);
    default:
      throw new pulumi.RunError(
        `there is no environment "${environment}": use the stack "local", or set one with \`pulumi config set environment local\``,
      );
  }
}

export const { uris, endpoints, spec, topology, connection, keyfilePath, dataFolder } = deploy();
