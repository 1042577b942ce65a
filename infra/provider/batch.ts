import type { Operation } from "../cluster/context.ts";
import type { Connection } from "../model/connection.ts";

/** How long a first question waits for others, in milliseconds: the engine asks for many resources within a few. */
const GATHER_MILLIS = 10;

interface Waiting<Value> {
  readonly key: string;
  readonly resolve: (value: Value | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Turns questions about single things, asked at about the same time on the same connection, into one question about all
 * of them. Nothing is kept: a question that comes later is asked anew.
 *
 * @param load the things of that kind; those that do not exist are left out
 * @param keyOf the key by which a thing is asked for
 */
export function batched<Value>(
  load: (op: Operation, connection: Connection, keys: readonly string[]) => Promise<readonly Value[]>,
  keyOf: (value: Value) => string,
): (op: Operation, connection: Connection, key: string) => Promise<Value | undefined> {
  const gathering = new Map<string, Waiting<Value>[]>();
  return (op, connection, key) =>
    new Promise((resolve, reject) => {
      const where = JSON.stringify(connection);
      const question = { key, resolve, reject };
      const others = gathering.get(where);
      if (others) {
        others.push(question);
        return;
      }
      const questions: Waiting<Value>[] = [question];
      gathering.set(where, questions);
      setTimeout(async () => {
        gathering.delete(where);
        try {
          const keys = [...new Set(questions.map((asked) => asked.key))];
          const values = new Map((await load(op, connection, keys)).map((value) => [keyOf(value), value]));
          for (const asked of questions) asked.resolve(values.get(asked.key));
        } catch (error) {
          for (const asked of questions) asked.reject(error);
        }
      }, GATHER_MILLIS);
    });
}
