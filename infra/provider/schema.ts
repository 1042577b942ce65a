/** The package schema: what the engine, `pulumi package get-schema` and generators of SDKs read. Made from the tables of fields. */
import type { Field, Fields, FieldType } from "./fields.ts";
import type { AnyResource } from "./resource.ts";

type Json = string | number | boolean | null | undefined | readonly Json[] | { readonly [key: string]: Json };

export function packageSchema(name: string, version: string, resources: readonly AnyResource[]): Json {
  const types: Record<string, Json> = {};
  const entries = resources.map((resource): [string, Json] => {
    const schema = new TypeWriter(name, resource.name, types);
    return [
      `${name}:index:${resource.name}`,
      {
        description: resource.description,
        inputProperties: schema.properties(resource.inputs),
        requiredInputs: requiredNames(resource.inputs),
        properties: schema.properties(resource.outputs),
        required: requiredNames(resource.outputs),
      },
    ];
  });
  return {
    name,
    version,
    description: "A MongoDB sharded cluster that lives in two datacenters.",
    license: "Apache-2.0",
    resources: Object.fromEntries(entries),
    types,
  };
}

class TypeWriter {
  readonly #package: string;
  readonly #owner: string;
  readonly #types: Record<string, Json>;

  constructor(packageName: string, owner: string, types: Record<string, Json>) {
    this.#package = packageName;
    this.#owner = owner;
    this.#types = types;
  }

  properties(fields: Fields, within = ""): { readonly [key: string]: Json } {
    return Object.fromEntries(
      Object.entries(fields).map(([name, field]) => [name, this.#property(field, `${within}${capital(name)}`)]),
    );
  }

  #property(field: Field, name: string): Json {
    return {
      ...this.#type(field, name),
      description: field.description,
      default: field.default,
      secret: field.secret,
      willReplaceOnChanges: field.replaces,
    };
  }

  #type(field: FieldType, name: string): { readonly [key: string]: Json } {
    switch (field.type) {
      case "string":
      case "boolean":
        return { type: field.type };
      case "number":
        return { type: field.integer ? "integer" : "number" };
      case "oneOf":
        return { type: field.values.every((value) => typeof value === "number") ? "number" : "string" };
      case "list":
        return { type: "array", items: this.#type(field.items, name) };
      case "map":
        return { type: "object", additionalProperties: this.#type(field.values, name) };
      case "anyOf":
        return { oneOf: field.types.map((type, i) => this.#type(type, `${name}${i}`)) };
      case "object": {
        const token = `${this.#package}:index:${this.#owner}${name}`;
        this.#types[token] = {
          type: "object",
          properties: this.properties(field.fields, name),
          required: requiredNames(field.fields),
        };
        return { $ref: `#/types/${token}` };
      }
    }
  }
}

function requiredNames(fields: Fields): readonly string[] {
  return Object.entries(fields)
    .filter(([, field]) => field.required !== false && field.default === undefined && !field.nullable)
    .map(([name]) => name);
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
