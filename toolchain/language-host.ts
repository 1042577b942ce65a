/**
 * Runs Pulumi programs written for Node.js: the engine starts this process and asks it over gRPC. It stands in for the
 * official `pulumi-language-nodejs` where that cannot be downloaded, and does what running a program takes; it does not
 * generate code or attach debuggers, and says so when asked. Programs may be TypeScript: Node.js runs it as it is.
 *
 * Start-up counts in every update, so this file imports the protocol and nothing else of the project.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, fstatSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import path from "node:path";
import grpc from "@grpc/grpc-js";
import languageService from "@pulumi/pulumi/proto/language_grpc_pb.js";
import language from "@pulumi/pulumi/proto/language_pb.js";
import plugin from "@pulumi/pulumi/proto/plugin_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";

/** What `@pulumi/pulumi/cmd/run` exits with after it has shown the program's error itself. */
const ALREADY_REPORTED = 32;

interface PackageJson {
  readonly main?: string;
  readonly name?: string;
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly pulumi?: {
    readonly resource?: boolean;
    readonly name?: string;
    readonly version?: string;
    readonly server?: string;
  };
}

// The engine puts its address last, behind flags for logs and traces that only official hosts heed.
const engineAddress = process.argv.slice(2).findLast((argument) => !argument.startsWith("-")) ?? "";
const children = new Set<ChildProcess>();
const ownRequire = createRequire(import.meta.url);

function readPackage(file: string): PackageJson | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as PackageJson;
  } catch {
    return undefined;
  }
}

/** The package.json nearest to a folder, looking upwards. */
function nearestPackage(folder: string): { file: string; content: PackageJson } | undefined {
  for (let at = path.resolve(folder); ; at = path.dirname(at)) {
    const file = path.join(at, "package.json");
    const content = readPackage(file);
    if (content) return { file, content };
    if (path.dirname(at) === at) return undefined;
  }
}

/** The SDK that the program itself imports: two different ones in a process would not know each other's outputs. */
function sdkFolder(programDirectory: string): string | undefined {
  for (const require of [createRequire(path.join(programDirectory, "program.js")), ownRequire]) {
    try {
      return path.dirname(require.resolve("@pulumi/pulumi/package.json"));
    } catch {
      // Not installed there: the next place.
    }
  }
  return undefined;
}

/** Flags for Node.js from `runtime.options.nodeargs` in Pulumi.yaml. */
function nodeArguments(info: language.ProgramInfo): string[] {
  const options = info.getOptions()?.toJavaScript() ?? {};
  return typeof options.nodeargs === "string" ? options.nodeargs.split(/\s+/).filter((part) => part !== "") : [];
}

function keep(child: ChildProcess): void {
  children.add(child);
  child.on("close", () => children.delete(child));
}

/** Waits for a child's end and the end of its output; a signal counts as 128 and its number, as in a shell. */
function ended(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
}

function failure(code: grpc.status, message: string): grpc.ServiceError {
  return Object.assign(new Error(message), { code, details: message, metadata: new grpc.Metadata() });
}

const unsupported = (what: string) =>
  failure(
    grpc.status.UNIMPLEMENTED,
    `${what} is not supported by this project's language host; install the official Pulumi release for it ` +
      "(a pulumi on the PATH is used instead of the project's own)",
  );

function refuse<Request, Response>(what: string): grpc.handleUnaryCall<Request, Response> {
  return (_call, callback) => callback(unsupported(what));
}

/** Answers with what `answer` returns or rejects with. */
function unary<Request, Response>(
  answer: (request: Request, call: grpc.ServerUnaryCall<Request, Response>) => Response | Promise<Response>,
): grpc.handleUnaryCall<Request, Response> {
  return (call, callback) => {
    Promise.try(answer, call.request, call).then(
      (response) => callback(null, response),
      (error: unknown) => callback(isServiceError(error) ? error : internal(error)),
    );
  };
}

function isServiceError(error: unknown): error is grpc.ServiceError {
  return error instanceof Error && "details" in error;
}

function internal(error: unknown): grpc.ServiceError {
  return failure(grpc.status.INTERNAL, error instanceof Error ? error.message : String(error));
}

async function run(request: language.RunRequest): Promise<language.RunResponse> {
  if (request.getAttachDebugger()) {
    throw unsupported("--attach-debugger");
  }
  const info = request.getInfo();
  if (!info) throw failure(grpc.status.INVALID_ARGUMENT, "the engine sent no program information");
  const directory = info.getProgramDirectory();
  const response = new language.RunResponse();
  const sdk = sdkFolder(directory);
  if (!sdk) {
    response.setError(`@pulumi/pulumi is not installed in ${directory}: run npm install there`);
    return response;
  }
  const config: Record<string, string> = {};
  request.getConfigMap().forEach((value, key) => {
    config[key] = value;
  });
  const flags = [
    ...["--monitor", request.getMonitorAddress(), "--engine", engineAddress],
    ...["--project", request.getProject(), "--stack", request.getStack(), "--organization", request.getOrganization()],
    ...["--pwd", directory, "--root-directory", info.getRootDirectory()],
    ...["--parallel", String(request.getParallel())],
    ...(request.getDryrun() ? ["--dry-run"] : []),
  ];
  const child = spawn(
    process.execPath,
    [
      ...nodeArguments(info),
      path.join(sdk, "cmd", "run", "index.js"),
      ...flags,
      info.getEntryPoint(),
      ...request.getArgsList(),
    ],
    {
      cwd: directory,
      stdio: ["ignore", "inherit", "inherit"],
      env: {
        ...process.env,
        PULUMI_CONFIG: JSON.stringify(config),
        PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(request.getConfigsecretkeysList()),
        // Node.js strips the types itself; the SDK's own way through ts-node would cost seconds.
        PULUMI_NODEJS_TYPESCRIPT: "false",
      },
    },
  );
  keep(child);
  const code = await ended(child);
  if (code === ALREADY_REPORTED) response.setBail(true);
  else if (code !== 0) response.setError(`Program exited with non-zero exit code: ${code}`);
  return response;
}

/** The file that starts a program or plugin: what package.json names as main, else index.js or index.ts. */
function entryPoint(directory: string, entry: string): string {
  const start = path.resolve(directory, entry === "" ? "." : entry);
  const main = readPackage(path.join(start, "package.json"))?.main;
  const candidates = [
    ...(main ? [path.join(start, main)] : []),
    start,
    ...["index.js", "index.ts"].map((name) => path.join(start, name)),
  ];
  return candidates.find((file) => existsSync(file) && /\.[cm]?[jt]s$/.test(file)) ?? start;
}

function runPlugin(call: grpc.ServerWritableStream<language.RunPluginRequest, language.RunPluginResponse>): void {
  const request = call.request;
  const info = request.getInfo();
  if (!info) {
    call.destroy(failure(grpc.status.INVALID_ARGUMENT, "the engine sent no program information"));
    return;
  }
  const env = Object.fromEntries(
    request.getEnvList().map((entry) => {
      const at = entry.indexOf("=");
      return [entry.slice(0, at), entry.slice(at + 1)];
    }),
  );
  const child = spawn(
    process.execPath,
    [...nodeArguments(info), entryPoint(info.getProgramDirectory(), info.getEntryPoint()), ...request.getArgsList()],
    { cwd: request.getPwd(), stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } },
  );
  keep(child);
  call.on("cancelled", () => child.kill("SIGTERM"));
  child.stdout.on("data", (chunk: Buffer) => {
    const response = new language.RunPluginResponse();
    response.setStdout(chunk);
    call.write(response);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    const response = new language.RunPluginResponse();
    response.setStderr(chunk);
    call.write(response);
  });
  ended(child).then(
    (code) => {
      const response = new language.RunPluginResponse();
      response.setExitcode(code);
      call.write(response);
      call.end();
    },
    (error: unknown) => call.destroy(internal(error)),
  );
}

function installDependencies(
  call: grpc.ServerWritableStream<language.InstallDependenciesRequest, language.InstallDependenciesResponse>,
): void {
  const directory = call.request.getInfo()?.getProgramDirectory() ?? call.request.getDirectory();
  const command = existsSync(path.join(directory, "package-lock.json")) ? "ci" : "install";
  const child = spawn("npm", [command], { cwd: directory, stdio: ["ignore", "pipe", "pipe"] });
  keep(child);
  call.on("cancelled", () => child.kill("SIGTERM"));
  child.stdout.on("data", (chunk: Buffer) => {
    const response = new language.InstallDependenciesResponse();
    response.setStdout(chunk);
    call.write(response);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    const response = new language.InstallDependenciesResponse();
    response.setStderr(chunk);
    call.write(response);
  });
  ended(child).then(
    (code) => {
      if (code === 0) call.end();
      else call.destroy(failure(grpc.status.ABORTED, `npm ${command} in ${directory} exited with ${code}`));
    },
    (error: unknown) => call.destroy(internal(error)),
  );
}

/** Installed dependencies of the program by name, each with its package.json. */
function* installed(directory: string, dev: boolean): Generator<[string, PackageJson]> {
  const root = nearestPackage(directory);
  if (!root) return;
  const require = createRequire(root.file);
  const wanted = { ...root.content.dependencies, ...(dev ? root.content.devDependencies : {}) };
  for (const name of Object.keys(wanted)) {
    const places = require.resolve.paths(name) ?? [];
    const file = places.map((place) => path.join(place, name, "package.json")).find((place) => existsSync(place));
    const content = file && readPackage(file);
    if (content) yield [name, content];
  }
}

/** The provider plugins behind the Pulumi packages that the program depends on. */
function requiredPackages(request: language.GetRequiredPackagesRequest): language.GetRequiredPackagesResponse {
  const response = new language.GetRequiredPackagesResponse();
  for (const [name, content] of installed(request.getInfo()?.getProgramDirectory() ?? ".", true)) {
    if (!content.pulumi?.resource) continue;
    const dependency = new plugin.PackageDependency();
    dependency.setKind("resource");
    dependency.setName(content.pulumi.name ?? name.replace(/^@pulumi\//, ""));
    dependency.setVersion(`v${(content.pulumi.version ?? content.version ?? "").replace(/^v/, "")}`);
    if (content.pulumi.server) dependency.setServer(content.pulumi.server);
    response.addPackages(dependency);
  }
  return response;
}

function programDependencies(request: language.GetProgramDependenciesRequest): language.GetProgramDependenciesResponse {
  const response = new language.GetProgramDependenciesResponse();
  for (const [name, content] of installed(request.getInfo()?.getProgramDirectory() ?? ".", false)) {
    const dependency = new language.DependencyInfo();
    dependency.setName(name);
    dependency.setVersion(content.version ?? "");
    response.addDependencies(dependency);
  }
  return response;
}

const service: languageService.ILanguageRuntimeServer = {
  handshake: unary(() => new language.LanguageHandshakeResponse()),
  getPluginInfo: unary(() => {
    const info = new plugin.PluginInfo();
    info.setVersion(readPackage(ownRequire.resolve("@pulumi/pulumi/package.json"))?.version ?? "");
    return info;
  }),
  getRequiredPackages: unary(requiredPackages),
  // Superseded by getRequiredPackages; the engine asks for it only where that is missing.
  getRequiredPlugins: unary(() => new language.GetRequiredPluginsResponse()),
  run: unary(run),
  runPlugin,
  installDependencies,
  getProgramDependencies: unary(programDependencies),
  about: unary(() => {
    const about = new language.AboutResponse();
    about.setExecutable(process.execPath);
    about.setVersion(process.version);
    return about;
  }),
  runtimeOptionsPrompts: unary(() => new language.RuntimeOptionsResponse()),
  template: unary(() => new language.TemplateResponse()),
  cancel: unary(() => {
    interrupt();
    return new empty.Empty();
  }),
  generateProgram: refuse("program generation"),
  generateProject: refuse("project generation"),
  generatePackage: refuse("SDK generation"),
  pack: refuse("packing an SDK"),
  link: refuse("linking an SDK"),
};

function interrupt(): void {
  for (const child of children) child.kill("SIGTERM");
}

function stop(): void {
  interrupt();
  // Programs that ignore the signal would outlive the engine; the engine itself waits five seconds for its plugins.
  setTimeout(() => {
    for (const child of children) child.kill("SIGKILL");
    process.exit(0);
  }, 3_000).unref();
  server.forceShutdown();
  if (process.stdin.readable) process.stdin.destroy();
}

const server = new grpc.Server();
server.addService(languageService.LanguageRuntimeService, service);
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) {
    console.error(`pulumi-language-nodejs: cannot listen on 127.0.0.1: ${error.message}`);
    process.exit(1);
  }
  process.stdout.write(`${port}\n`);
});

process.on("SIGINT", stop).on("SIGTERM", stop);
// The engine holds the other end of this pipe: when it dies, even by SIGKILL, the program must not go on.
if (fstatSync(0).isFIFO() || fstatSync(0).isSocket()) {
  process.stdin.on("end", stop).on("error", stop).resume();
}
