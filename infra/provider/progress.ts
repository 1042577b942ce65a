import { credentials } from "@grpc/grpc-js";
import { engineMessages, engineService } from "./protos.ts";

/** Speaks to people through the engine: `pulumi up` shows it beside the resource. */
export class EngineLog {
  readonly #client: InstanceType<typeof engineService.EngineClient> | undefined;

  /** @param address of the engine, `host:port`; undefined: nobody listens, and what is said goes to standard error */
  constructor(address: string | undefined) {
    this.#client = address ? new engineService.EngineClient(address, credentials.createInsecure()) : undefined;
  }

  /** A line that the next one of the same resource takes the place of. */
  status(urn: string, text: string): void {
    this.#send(engineMessages.LogSeverity.INFO, urn, text, true);
  }

  /** A line that stays. */
  warning(urn: string, text: string): void {
    this.#send(engineMessages.LogSeverity.WARNING, urn, text, false);
  }

  close(): void {
    this.#client?.close();
  }

  #send(severity: 0 | 1 | 2 | 3, urn: string, message: string, ephemeral: boolean): void {
    if (!this.#client) {
      console.error(`${urn}: ${message}`);
      return;
    }
    const request = new engineMessages.LogRequest()
      .setSeverity(severity)
      .setUrn(urn)
      .setMessage(message)
      .setEphemeral(ephemeral);
    // Progress is a courtesy: an engine that has stopped listening is no reason to fail.
    this.#client.log(request, () => undefined);
  }
}
