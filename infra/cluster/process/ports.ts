import { createServer } from "node:net";
import { AlfabravoError } from "../../model/problem.ts";

/** All that this project starts on its own machine listens here and nowhere else. */
export const LOOPBACK = "127.0.0.1";

/** Below the range that systems hand to outgoing connections, so that no connection takes a port between choice and use. */
const FIRST_PORT = 27_100;
const LAST_PORT = 31_999;

/** Chosen by this process and perhaps not yet listened on. */
const chosen = new Set<number>();

/** A port on loopback that nothing listens on and that no other call of this process was given. */
export async function pickPort(): Promise<number> {
  const count = LAST_PORT - FIRST_PORT + 1;
  const start = Math.floor(Math.random() * count);
  for (let i = 0; i < count; i++) {
    const port = FIRST_PORT + ((start + i) % count);
    if (chosen.has(port)) continue;
    chosen.add(port);
    if (await isPortFree(port)) return port;
    chosen.delete(port);
  }
  throw new AlfabravoError(`no port between ${FIRST_PORT} and ${LAST_PORT} is free`, {
    where: LOOPBACK,
    next: "end servers that are no longer needed, or give each process a port of its own",
  });
}

export function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
