import type { Headgate } from "./client.js";
import { Counter } from "./hits.js";

export interface StoreOptions {
  /** Stands before each key: `rl:` by default. Limiters that count differently need prefixes that differ. */
  prefix?: string;
}

interface Info {
  totalHits: number;
  resetTime: Date;
}

/** A store of express-rate-limit, express-slow-down and hono-rate-limiter. A limiter needs one of its own. */
export class HeadgateStore {
  readonly prefix: string;
  readonly localKeys = false;
  readonly #counter: Counter;
  #window = 60_000;

  constructor(headgate: Headgate, options: StoreOptions = {}) {
    this.#counter = new Counter(headgate);
    this.prefix = options.prefix ?? "rl:";
  }

  init(options: { windowMs: number }): void {
    this.#window = options.windowMs;
  }

  async increment(key: string): Promise<Info> {
    const { hits, resetAfter } = await this.#counter.hit(this.prefix + key, this.#window);
    return { totalHits: hits, resetTime: new Date(Date.now() + resetAfter) };
  }

  async get(key: string): Promise<Info | undefined> {
    const { hits, resetAfter } = await this.#counter.get(this.prefix + key, this.#window);
    return hits === 0 ? undefined : { totalHits: hits, resetTime: new Date(Date.now() + resetAfter) };
  }

  async decrement(key: string): Promise<void> {
    await this.#counter.giveBack(this.prefix + key, this.#window);
  }

  async resetKey(key: string): Promise<void> {
    await this.#counter.reset(this.prefix + key);
  }
}
