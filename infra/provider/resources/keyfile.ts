import { rm } from "node:fs/promises";
import { ensureKeyfile, readKeyfile } from "../../cluster/process/keyfile.ts";
import { valueDiff } from "../diff.ts";
import type { Fields } from "../fields.ts";
import type { Resource } from "../resource.ts";

export interface KeyfileInputs {
  readonly path: string;
  readonly purge: boolean;
}

export interface KeyfileState extends KeyfileInputs {
  readonly content: string;
}

const inputs = {
  path: {
    type: "string",
    pattern: /^\//,
    patternSays: "an absolute path",
    description: "Where the keyfile lies on this machine.",
    replaces: true,
  },
  purge: {
    type: "boolean",
    default: false,
    description: "Whether destroying removes the file. Without it the data can be used again.",
  },
} as const satisfies Fields;

export const keyfile: Resource<KeyfileInputs, KeyfileState> = {
  name: "Keyfile",
  description: "The secret that the members of a cluster share, in a file that only its owner can read.",
  inputs,
  outputs: {
    ...inputs,
    content: { type: "string", secret: true, description: "The key, without white space." },
  },

  diff: (state, news) => [
    ...valueDiff(["path"], state.path, news.path),
    ...valueDiff(["purge"], state.purge, news.purge),
  ],

  preview: (known, state) => ({ ...known, ...(state ? { content: state.content } : {}) }),

  async converge(_op, { path, purge }) {
    return { id: path, state: { path, purge, content: await ensureKeyfile(path) } };
  },

  async read(_op, state) {
    const content = await readKeyfile(state.path);
    return content === undefined ? undefined : { ...state, content };
  },

  async delete(_op, state) {
    if (state.purge) await rm(state.path, { force: true });
  },
};
