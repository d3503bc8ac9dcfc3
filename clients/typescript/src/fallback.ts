import { decision, type Decision } from "./decision.js";
import type { Limit, OnFailure } from "./limit.js";

const most = 10_000;
/** The wait of a denial that only the server can shorten. */
const aSecond = 1000;
// Sums of shares are not exact.
const tiny = 1e-6;

interface Node<V> {
  key: string;
  value: V;
  prev: Node<V>;
  next: Node<V>;
}

/**
 * Lru is a map of at most so many entries. The one that was used longest ago goes first. The entries are a ring:
 * to delete a key of a Map and set it again, which moves it to the end, becomes slow if it is always the same key.
 */
export class Lru<V> {
  readonly #map = new Map<string, Node<V>>();
  /** The one that was used last. */
  #head: Node<V> | undefined;

  constructor(private readonly most: number) {}

  get size(): number {
    return this.#map.size;
  }

  get(key: string): V | undefined {
    return this.#map.get(key)?.value;
  }

  /** use returns the value of a key, as the one that was used last. */
  use(key: string): V | undefined {
    const n = this.#map.get(key);
    if (n && n !== this.#head) {
      this.#leave(n);
      this.#lead(n);
    }
    return n?.value;
  }

  put(key: string, value: V): void {
    const n = this.#map.get(key);
    if (n) {
      n.value = value;
      this.use(key);
      return;
    }
    if (this.#map.size >= this.most) this.delete(this.#head!.prev.key);
    const made = { key, value } as Node<V>;
    this.#map.set(key, made);
    this.#lead(made);
  }

  delete(key: string): void {
    const n = this.#map.get(key);
    if (!n) return;
    this.#map.delete(key);
    this.#leave(n);
  }

  #leave(n: Node<V>): void {
    if (this.#head === n) this.#head = n.next === n ? undefined : n.next;
    n.prev.next = n.next;
    n.next.prev = n.prev;
  }

  #lead(n: Node<V>): void {
    const h = this.#head ?? n;
    n.next = h;
    n.prev = h === n ? n : h.prev;
    n.prev.next = n;
    h.prev = n;
    this.#head = n;
  }
}

interface Bucket {
  level: number;
  at: number;
}

/** What a limit is asked for: the key is the limit's, or a name for the attributes of a policy. */
export interface Asked {
  key: string;
  limit: Limit | undefined;
  onFailure: OnFailure;
  cost: number;
}

/** Fallback decides while the server is away. */
export class Fallback {
  readonly #buckets = new Lru<Bucket>(most);
  readonly #slots = new Lru<Map<number, number>>(most);
  #names = 0;

  constructor(private readonly share: (key: string, now: number) => number) {}

  /** decide answers a call, and takes its units unless it is a peek. */
  decide(calls: readonly Asked[], now: number, peek = false): Decision {
    let denied: Decision | undefined;
    let least: Decision | undefined;
    const take: (() => void)[] = [];
    for (const c of calls) {
      const d = c.onFailure === "local" && c.limit ? this.#local(c, c.limit, now, take) : c.onFailure === "closed" ? closed : open;
      if (!d.allowed && (!denied || longer(d.retryAfter, denied.retryAfter))) denied = d;
      if (!least || least.limit < 0 || (d.limit >= 0 && d.remaining < least.remaining)) least = d;
    }
    if (denied) return denied;
    if (!peek) for (const f of take) f();
    return least ?? open;
  }

  #local(c: Asked, limit: Limit, now: number, take: (() => void)[]): Decision {
    if (limit.units === 0) return decision(false, 0, 0, -1, 0, 0, "fallback", true);
    const share = this.share(c.key, now);
    const capacity = Math.max(share * limit.capacity, 1);
    const rate = (share * limit.units) / limit.period;
    let b = this.#buckets.use(c.key);
    if (!b) {
      b = { level: capacity, at: now };
      this.#buckets.put(c.key, b);
    }
    b.level = Math.min(b.level + Math.max(now - b.at, 0) * rate, capacity);
    b.at = now;
    const allowed = b.level + tiny >= c.cost;
    const left = allowed ? Math.max(b.level - c.cost, 0) : b.level;
    const bucket = b;
    if (allowed) take.push(() => (bucket.level = left));
    let retryAfter = 0;
    if (c.cost > limit.capacity) retryAfter = -1;
    else if (!allowed) retryAfter = c.cost > capacity ? aSecond : up((c.cost - b.level) / rate);
    return decision(allowed, limit.capacity, Math.floor(left + tiny), retryAfter, up((capacity - left) / rate), 0, "fallback", true);
  }

  /** acquire takes a slot of the share of a key, and returns what gives it back. */
  acquire(key: string, slots: number, ttl: number, onFailure: OnFailure, now: number): { decision: Decision; release: () => void } {
    const nothing = (): void => {};
    if (onFailure !== "local") return { decision: onFailure === "closed" ? closed : open, release: nothing };
    if (slots === 0) return { decision: decision(false, 0, 0, -1, 0, 0, "fallback", true), release: nothing };
    const size = Math.max(Math.floor(this.share(key, now) * slots + tiny), 1);
    let held = this.#slots.use(key);
    if (!held) this.#slots.put(key, (held = new Map()));
    let ends = Infinity;
    for (const [name, end] of held) {
      if (end <= now) held.delete(name);
      else ends = Math.min(ends, end);
    }
    if (held.size >= size) {
      return { decision: decision(false, slots, 0, up(ends - now), 0, 0, "fallback", true), release: nothing };
    }
    const name = this.#names++;
    const of = held.set(name, now + ttl);
    return { decision: decision(true, slots, size - held.size, 0, 0, 0, "fallback", true), release: () => void of.delete(name) };
  }
}

/** The answers of `open` and `closed`. */
export const open = Object.freeze(decision(true, -1, -1, 0, 0, 0, "fallback", true));
export const closed = Object.freeze(decision(false, -1, -1, aSecond, 0, 0, "fallback", true));

const up = (ms: number): number => Math.ceil(ms - 1e-6);
const longer = (a: number, b: number): boolean => b >= 0 && (a < 0 || a > b);

interface Debt {
  cost: number;
  at: number;
  limit: Limit | undefined;
  command: (cost: number) => string[];
}

const atOnce = 100;

/** Debts is what was admitted without the server, by key. It is charged once. */
export class Debts {
  readonly #debts = new Map<string, Debt>();
  #sending = false;
  charged = 0;
  dropped = 0;

  add(key: string, limit: Limit | undefined, cost: number, now: number, command: (cost: number) => string[]): void {
    if (cost < 1) return;
    const d = this.#debts.get(key);
    if (d) {
      d.cost += cost;
      d.at = now;
      d.limit = limit;
      d.command = command;
    } else if (this.#debts.size < most) this.#debts.set(key, { cost, at: now, limit, command });
    else this.dropped += cost;
  }

  get size(): number {
    return this.#debts.size;
  }

  /** settle sends what still counts, until the server is away again. A sum is never sent twice. */
  async settle(now: () => number, send: ((args: string[]) => Promise<unknown>), ready: () => boolean): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    while (this.#debts.size > 0 && ready()) {
      const batch: Promise<unknown>[] = [];
      for (const [key, d] of this.#debts) {
        if (batch.length >= atOnce) break;
        this.#debts.delete(key);
        if (now() - d.at > counts(d.limit)) {
          this.dropped += d.cost;
          continue;
        }
        this.charged += d.cost;
        batch.push(send(d.command(d.cost)).catch(() => {}));
      }
      await Promise.all(batch);
    }
    this.#sending = false;
  }
}

/** counts returns how long a charge makes a difference. */
function counts(l: Limit | undefined): number {
  if (!l) return 60_000;
  return l.algorithm === "sliding" ? 2 * l.period : l.window;
}
