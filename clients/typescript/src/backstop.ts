import { decision, type Decision } from "./decision.js";
import { Lru } from "./fallback.js";
import { Limit } from "./limit.js";
import { system, type Runtime } from "./runtime.js";

/** A bucket per address in this process, in front of everything: ten times the limit. */
export class Backstop {
  readonly #buckets = new Lru<{ level: number; at: number }>(10_000);
  readonly #limit: Limit;
  readonly #runtime: Runtime;

  constructor(limit: Limit, runtime: Runtime = system) {
    this.#limit = new Limit(limit.units * 10, limit.period, { burst: Math.max(limit.capacity * 10, 1) });
    this.#runtime = runtime;
  }

  /** Returns a denial, or undefined if the call may go on. */
  check(address: string): Decision | undefined {
    const { capacity, units, period, window } = this.#limit;
    const rate = units / period;
    const now = this.#runtime.now();
    const b = this.#buckets.use(address);
    if (!b) {
      this.#buckets.put(address, { level: capacity - 1, at: now });
      return undefined;
    }
    b.level = Math.min(b.level + (now - b.at) * rate, capacity);
    b.at = now;
    if (b.level >= 1) {
      b.level--;
      return undefined;
    }
    return decision(false, capacity, 0, Math.ceil((1 - b.level) / rate), Math.ceil(window), 0, "backstop");
  }
}
