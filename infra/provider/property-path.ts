/** Paths of fields as Pulumi writes them: `members[1].priority`, `tags["data.center"]`. */
import type { Path } from "./properties.ts";

export function formatPath(path: Path): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (/^[A-Za-z_$][\w$]*$/.test(step)) text += text === "" ? step : `.${step}`;
    else text += `["${step.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"]`;
  }
  return text;
}
