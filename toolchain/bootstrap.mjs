#!/usr/bin/env node
// The first program of a fresh clone: plain JavaScript for any Node.js from 18 on, with nothing installed. It installs the
// npm packages when they are missing or out of date and hands over to the Node.js that they bring.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { acquireLock } from "./lock.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const modules = path.join(root, "node_modules");
const marker = path.join(modules, ".alfabravo-lockfile");
const OLDEST_MAJOR = 18;
const TALK_MS = 5_000;

/** Node.js 24 as the npm package `node` brings it. */
export const node24 = path.join(modules, "node", "bin", "node");

function lockfileHash() {
  return createHash("sha256")
    .update(readFileSync(path.join(root, "package-lock.json")))
    .digest("hex");
}

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

/**
 * Whether npm itself finished an installation of exactly this lockfile. npm writes its own record at the very end, so an
 * interrupted run has none, or one that differs.
 */
function installedByHand() {
  try {
    const wanted = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")).packages;
    const present = JSON.parse(readFileSync(path.join(modules, ".package-lock.json"), "utf8")).packages;
    return Object.entries(wanted).every(([place, entry]) => {
      if (place === "" || !place.startsWith("node_modules/")) return true;
      const found = present[place];
      if (!found) return Boolean(entry.optional || entry.devOptional || entry.peer);
      return (
        found.version === entry.version && found.integrity === entry.integrity && found.resolved === entry.resolved
      );
    });
  } catch {
    return false;
  }
}

/** Whether the npm packages are those of package-lock.json, Node.js 24 included. */
function upToDate() {
  if (!existsSync(node24)) return false;
  if (read(marker) === lockfileHash()) return true;
  if (!installedByHand()) return false;
  writeFileSync(marker, lockfileHash());
  return true;
}

/** Runs a step whose output matters only when it fails, and says every few seconds that it is still at it. */
async function step(label, command, args, options = {}) {
  const startedAt = Date.now();
  const elapsed = () => `${Math.round((Date.now() - startedAt) / 1000)} s`;
  const live = process.stderr.isTTY && !process.env.CI;
  const say = (text, end) => process.stderr.write(live ? `\r\x1b[K${text}${end ? "\n" : ""}` : `${text}\n`);
  say(`· ${label}`, false);
  const timer = setInterval(() => say(`· ${label} (${elapsed()})`, false), live ? 500 : TALK_MS);
  const { code, output } = await new Promise((resolve) => {
    // Before the program starts: a signal between its start and this would end this process and leave it running.
    const stop = (signal) => {
      child.kill(signal);
      clearInterval(timer);
      say(`✗ ${label}: interrupted; the next command goes on`, true);
      process.exit(128 + constants.signals[signal]);
    };
    process.once("SIGINT", stop).once("SIGTERM", stop);
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"], ...options });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        output += chunk;
      });
    }
    const end = (result) => {
      process.off("SIGINT", stop).off("SIGTERM", stop);
      resolve(result);
    };
    child.on("error", (error) => end({ code: 1, output: `${command} cannot be started: ${error.message}` }));
    child.on("close", (code) => end({ code: code ?? 1, output }));
  });
  clearInterval(timer);
  say(`${code === 0 ? "✓" : "✗"} ${label} (${elapsed()})`, true);
  return { code, output };
}

function fail(what, where, why, next) {
  process.stderr.write(`error: ${what}: ${why}\n  where: ${where}\n  next:  ${next}\n`);
  process.exit(1);
}

/** Installs the npm packages when they are missing, incomplete or older than package-lock.json. */
export async function ensurePackages() {
  const major = Number(process.versions.node.split(".")[0]);
  if (major < OLDEST_MAJOR) {
    fail(
      "Node.js is too old",
      process.execPath,
      `it is ${process.version}`,
      `install Node.js ${OLDEST_MAJOR} or newer`,
    );
  }
  if (upToDate()) return;
  let release;
  try {
    release = await acquireLock(path.join(root, ".alfabravo", "install.lock"), {
      onWait: (pid) => process.stderr.write(`· npm packages: process ${pid} is installing them, waiting\n`),
    });
  } catch (error) {
    fail("the npm packages cannot be installed", root, error.message, "make the checkout writable");
  }
  try {
    if (upToDate()) return;
    rmSync(marker, { force: true });
    const npm = await step("npm packages: npm ci", "npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
    if (npm.code !== 0) {
      const why = npm.output.trim().split("\n").slice(-8).join("\n    ");
      fail("npm ci failed", root, why, "mend what npm names and run the same command again");
    }
    if (!existsSync(node24)) await fetchNode24();
    writeFileSync(marker, lockfileHash());
  } finally {
    release();
  }
}

/** Where npm runs no install scripts, the package `node` comes without its binary; its script fetches it by hand. */
async function fetchNode24() {
  const folder = path.join(modules, "node");
  const fetched = await step("Node.js 24", process.execPath, ["installArchSpecificPackage.js"], { cwd: folder });
  if (fetched.code !== 0 || !existsSync(node24)) {
    const why = fetched.output.trim().split("\n").slice(-4).join("\n    ") || "its install script left no binary";
    fail("Node.js 24 could not be installed", folder, why, "run `npm rebuild node --foreground-scripts` to see why");
  }
}

/** The environment in which everything else runs: commands of the packages first on the PATH, Node.js 24 among them. */
export function packagedEnvironment() {
  const bin = path.join(modules, ".bin");
  const rest = (process.env.PATH ?? "").split(path.delimiter).filter((folder) => folder !== "" && folder !== bin);
  const proxied = Object.keys(process.env).some((name) => /^https?_proxy$/i.test(name));
  return {
    ...process.env,
    PATH: [bin, ...rest].join(path.delimiter),
    ...(proxied && process.env.NODE_USE_ENV_PROXY === undefined && { NODE_USE_ENV_PROXY: "1" }),
  };
}

/** Runs Node.js 24 in place of this process as far as that goes: its input and output, its signals, its exit code. */
export function handOver(args) {
  return new Promise((resolve) => {
    // A terminal sends its interrupt to the whole foreground group, so the child has it already: a second one would make
    // Pulumi give up at once instead of in good order. Other senders mean this process alone.
    const forward = (signal) => {
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    };
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
    for (const signal of signals) process.on(signal, forward);
    const child = spawn(node24, args, { stdio: "inherit", env: packagedEnvironment() });
    child.on("error", (error) => {
      fail("Node.js 24 cannot be started", node24, error.message, "delete node_modules and run the same command again");
    });
    child.on("close", (code, signal) => {
      for (const name of signals) process.off(name, forward);
      resolve(signal ? 128 + constants.signals[signal] : code);
    });
  });
}

async function main([command = "", ...args]) {
  if (command === "" || command === "--help") {
    process.stderr.write("usage: node toolchain/bootstrap.mjs <command> [args...]\n");
    return command === "" ? 1 : 0;
  }
  await ensurePackages();
  if (command === "test") {
    // Prepared here, where it is shown: inside a test run the minutes of a first build would pass in silence.
    const prepared = await handOver([path.join(root, "toolchain", "prepare.ts")]);
    if (prepared !== 0) return prepared;
    return handOver([path.join(modules, "vitest", "vitest.mjs"), "run", ...args]);
  }
  if (command === "bench") return handOver([path.join(root, "bench", "index.ts"), ...args]);
  return handOver([path.join(root, "scripts", "alfabravo.ts"), command, ...args]);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.exitCode = await main(process.argv.slice(2));
}
