import { decision, type Decision } from "./decision.js";
import { Lru } from "./fallback.js";
import type { Limit } from "./limit.js";

/** For how long a denial is remembered at most, in milliseconds. */
export const memory = 1000;

interface Denial {
  decision: Decision;
  /** Undefined for a policy. */
  limit: Limit | undefined;
  cost: number;
  at: number;
  until: number;
}

/** Denials by the server, which hold for calls of the same cost or more. */
export class Denials {
  readonly #known = new Lru<Denial>(10_000);

  remember(key: string, limit: Limit | undefined, cost: number, d: Decision, now: number): void {
    const wait = d.retryAfter < 0 ? memory : Math.min(d.retryAfter, memory);
    this.#known.put(key, { decision: d, limit, cost, at: now, until: now + wait });
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  /** weaker reports whether a denial of cost says more than what is remembered. */
  weaker(key: string, cost: number, now: number): boolean {
    const d = this.#known.get(key);
    return !d || now >= d.until || cost <= d.cost;
  }

  recall(key: string, limit: Limit | undefined, cost: number, now: number): Decision | undefined {
    if (this.#known.size === 0) return undefined;
    const d = this.#known.get(key);
    if (!d || cost < d.cost || (limit !== d.limit && !(limit && d.limit && limit.equals(d.limit)))) return undefined;
    if (now >= d.until) {
      this.#known.delete(key);
      return undefined;
    }
    const past = now - d.at;
    const was = d.decision;
    return decision(false, was.limit, was.remaining, was.retryAfter > 0 ? Math.max(Math.ceil(was.retryAfter - past), 1) : was.retryAfter,
      Math.max(Math.ceil(was.resetAfter - past), 0), 0, "denied", was.degraded, was.name, was.reason, null,
      was.limits);
  }
}
