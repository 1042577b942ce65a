#!/usr/bin/env node
/** The command line: options in, exit code out. What each command does lies in the file that bears its name. */
import { Command, CommanderError, Option } from "commander";
import { exitCode, reportFailure } from "./support/outcome.ts";

interface GlobalOptions {
  readonly stack: string;
  readonly json: boolean;
  readonly yes: boolean;
  readonly verbose: boolean;
}

const program = new Command("alfabravo")
  .description("A MongoDB sharded cluster in two datacenters: declare it, build it, prove it, watch it.")
  .option("-s, --stack <name>", "the environment: a Pulumi stack", "local")
  .option("--json", "machine-readable result on standard output, no progress", false)
  .option("-y, --yes", "do not ask", false)
  .addOption(new Option("--verbose", "show stack traces and the engine's own output").default(false))
  .exitOverride()
  .addHelpText("after", "\nExit codes: 0 fine, 2 drift or a failed check, 1 could not tell.");

const globals = (command: Command): GlobalOptions => command.optsWithGlobals<GlobalOptions>();

program
  .command("up")
  .description("build or repair the cluster, then verify it")
  .option("--skip-verify", "do not run the checks at the end", false)
  .action(async (options: { skipVerify: boolean }, command: Command) => {
    const { up } = await import("./up.ts");
    process.exitCode = await up({ ...globals(command), verify: !options.skipVerify });
  });

program
  .command("down")
  .description("stop the cluster; its data stays")
  .option("--purge", "delete the data folder as well", false)
  .action(async (options: { purge: boolean }, command: Command) => {
    const { down } = await import("./down.ts");
    process.exitCode = await down({ ...globals(command), purge: options.purge });
  });

program
  .command("status")
  .description("show where everything is and whether it serves")
  .option("--show-secrets", "print connection strings with their passwords", false)
  .action(async (options: { showSecrets: boolean }, command: Command) => {
    const { status } = await import("./status.ts");
    process.exitCode = await status({ ...globals(command), showSecrets: options.showSecrets });
  });

program
  .command("verify")
  .description("prove that every constraint holds, each check with its evidence")
  .action(async (_options: unknown, command: Command) => {
    const { verify } = await import("./verify.ts");
    process.exitCode = await verify(globals(command));
  });

program
  .command("drift")
  .description("compare the live cluster with the declaration")
  .action(async (_options: unknown, command: Command) => {
    const { drift } = await import("./drift.ts");
    process.exitCode = await drift(globals(command));
  });

program
  .command("doctor")
  .description("show which tools were found, their versions and sources, and what is missing")
  .option("--retry-network", "forget that an official download could not be reached", false)
  .action(async (options: { retryNetwork: boolean }, command: Command) => {
    const { doctor } = await import("./doctor.ts");
    process.exitCode = await doctor({ ...globals(command), retryNetwork: options.retryNetwork });
  });

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : exitCode.couldNotTell;
  else process.exitCode = reportFailure(error, program.opts<GlobalOptions>());
}
