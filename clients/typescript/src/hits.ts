import type { Headgate } from "./client.js";
import { HeadgateError } from "./errors.js";
import { Lru } from "./fallback.js";
import { Limit } from "./limit.js";

/** As many units as clients read without a rounding error. */
const most = 2 ** 52;

/** The hits of a key in a window. */
export interface Hits {
  hits: number;
  /** Milliseconds until the window ends. */
  resetAfter: number;
}

/**
 * Counts hits for libraries that compare them with a limit of their own, which may be another one for each
 * request. While the server is away, each hit here counts as many times as there are processes: so a
 * process admits its share of a limit that is not known here.
 */
export class Counter {
  readonly #limits = new Map<number, Limit>();
  readonly #local = new Lru<{ hits: number; ends: number }>(10_000);

  constructor(private readonly headgate: Headgate) {}

  async hit(key: string, window: number): Promise<Hits> {
    const d = await this.headgate.despite(this.headgate.allow(key, this.#limit(window)));
    if (d.source === "fallback") {
      const h = this.#away(key, window);
      h.hits++;
      return this.#share(h);
    }
    return { hits: most - d.remaining, resetAfter: d.resetAfter };
  }

  async get(key: string, window: number): Promise<Hits> {
    const d = await this.headgate.despite(this.headgate.peek(key, this.#limit(window), 0));
    if (d.source === "fallback") return this.#share(this.#away(key, window));
    return { hits: most - d.remaining, resetAfter: d.resetAfter };
  }

  async giveBack(key: string, window: number): Promise<void> {
    // After an error of the server the hit was counted here.
    const d = await this.headgate.refund(key, this.#limit(window), 1).catch((e) => {
      if (e instanceof HeadgateError && e.code !== "CLOSED") return undefined;
      throw e;
    });
    if (d && d.source !== "fallback") return;
    const h = this.#away(key, window);
    h.hits = Math.max(h.hits - 1, 0);
  }

  async reset(key: string): Promise<void> {
    this.#local.delete(key);
    await this.headgate.reset(key);
  }

  #away(key: string, window: number): { hits: number; ends: number } {
    let h = this.#local.use(key);
    const now = performance.now();
    if (!h || now >= h.ends) this.#local.put(key, (h = { hits: 0, ends: now + window }));
    return h;
  }

  #share(h: { hits: number; ends: number }): Hits {
    return { hits: Math.ceil(h.hits / this.headgate.share - 1e-9), resetAfter: Math.max(Math.ceil(h.ends - performance.now()), 1) };
  }

  #limit(window: number): Limit {
    let l = this.#limits.get(window);
    if (!l) {
      // Whoever asks counts in its own way while the server is away.
      l = new Limit(most, window, { algorithm: "fixed", onFailure: "open", leased: false });
      if (this.#limits.size < 1000) this.#limits.set(window, l);
    }
    return l;
  }
}
