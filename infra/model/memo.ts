/** A memory of texts already worked on. It forgets everything when full: simple, and the next round fills it again. */
export class Memo<T> {
  readonly #known = new Map<string, T>();
  static readonly #MAX = 100_000;

  get(text: string, make: () => T): T {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const made = make();
    if (this.#known.size >= Memo.#MAX) this.#known.clear();
    this.#known.set(text, made);
    return made;
  }
}
