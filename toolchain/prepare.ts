/** `node toolchain/prepare.ts`: makes the toolchain ready and says what was used; the bootstrap runs it before the tests. */
import { createProgress, formatToolchainError, prepareToolchain } from "./index.ts";

const progress = createProgress();
try {
  await prepareToolchain({ progress });
} catch (error) {
  progress.stop();
  console.error(formatToolchainError(error));
  process.exit(1);
}
