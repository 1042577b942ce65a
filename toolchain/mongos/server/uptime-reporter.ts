/** The router's own entry in `config.mongos`, renewed every ten seconds: tools find the cluster's routers there. */

import { log } from "../log.ts";
import type { Router } from "../router.ts";

/** As a mongos does it, in milliseconds. */
const INTERVAL_MS = 10_000;

/** Reports until the returned function is called. A report that fails (no config primary) is left to the next one. */
export function reportUptime(router: Router): () => void {
  const { info } = router;
  const report = async (): Promise<void> => {
    const now = new Date();
    const entry = {
      advisoryHostFQDNs: [],
      created: info.started,
      mongoVersion: info.version,
      ping: now,
      up: BigInt(Math.round((now.getTime() - info.started.getTime()) / 1000)),
      waiting: true,
    };
    try {
      await router.config.run(
        router.background(),
        "config",
        {
          update: "mongos",
          updates: [{ q: { _id: `${info.host}:${info.port}` }, u: { $set: entry }, upsert: true }],
          writeConcern: { w: "majority", wtimeout: INTERVAL_MS },
        },
        { idempotent: true },
      );
    } catch (error) {
      log("D1", "SHARDING", "Uptime is not reported", { error: String(error) });
    }
  };
  void report();
  const timer = setInterval(() => void report(), INTERVAL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
