/** Runs `act` for every item, at most `limit` at a time, and keeps the order of the results. The first error ends it. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  limit: number,
  act: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  const entries = items.entries();
  const worker = async () => {
    // The workers share one iterator: each takes the next item when it is free.
    for (const [index, item] of entries) results[index] = await act(item, index);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}
