/**
 * The protocol between Pulumi's engine and its plugins, as generated code of the SDK.
 *
 * Loaded through `createRequire`: the files are CommonJS whose exports cannot be seen from the outside, and their
 * `Struct` must be the one of the SDK's own copy of google-protobuf.
 */
import { createRequire } from "node:module";
import type * as engineGrpc from "@pulumi/pulumi/proto/engine_grpc_pb.js";
import type * as engine from "@pulumi/pulumi/proto/engine_pb.js";
import type * as plugin from "@pulumi/pulumi/proto/plugin_pb.js";
import type * as providerGrpc from "@pulumi/pulumi/proto/provider_grpc_pb.js";
import type * as provider from "@pulumi/pulumi/proto/provider_pb.js";
import type * as empty from "google-protobuf/google/protobuf/empty_pb.js";
import type * as struct from "google-protobuf/google/protobuf/struct_pb.js";

const require = createRequire(import.meta.url);
const sdkRequire = createRequire(require.resolve("@pulumi/pulumi/package.json"));

export type { engine, plugin, provider, providerGrpc, struct };

export const providerMessages: typeof provider = sdkRequire("./proto/provider_pb.js");
export const providerService: typeof providerGrpc = sdkRequire("./proto/provider_grpc_pb.js");
export const pluginMessages: typeof plugin = sdkRequire("./proto/plugin_pb.js");
export const engineMessages: typeof engine = sdkRequire("./proto/engine_pb.js");
export const engineService: typeof engineGrpc = sdkRequire("./proto/engine_grpc_pb.js");
export const emptyMessages: typeof empty = sdkRequire("google-protobuf/google/protobuf/empty_pb.js");
export const structMessages: typeof struct = sdkRequire("google-protobuf/google/protobuf/struct_pb.js");
