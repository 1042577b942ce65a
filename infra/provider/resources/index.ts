import { type AnyResource, erased } from "../resource.ts";
import { keyfile } from "./keyfile.ts";
import { localProcess } from "./local-process.ts";

/** Everything that the provider manages. */
export const resources: readonly AnyResource[] = [erased(keyfile), erased(localProcess)];
