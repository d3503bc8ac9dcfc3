import { randomBytes } from "node:crypto";
import { Block } from "./block.js";
import { decision, type Decision, type Grant } from "./decision.js";
import type { Denials } from "./denials.js";
import type { Failure } from "./errors.js";
import { duration, periodText, whole, type Limit } from "./limit.js";
import type { Runtime } from "./runtime.js";

export interface LeaseOptions {
  /** For how long the client takes units: 2 s by default. A process that is killed loses them for that long. */
  leaseTtl?: number | string;
  /** How many keys are leased at one time: 10,000 by default. With 0 the server is asked for each call. */
  maxLeases?: number;
}

/** A key is leased if it is asked for so many times a second. */
const hotRate = 20;
/** How many keys are measured for each that may be leased. */
const watched = 4;
const leastWatched = 16;
/** Blocks that are given back at one time. */
const returning = 32;
/** For how long a key is asked for call by call after a request has failed. */
const pause = 250;
/** For how long an entry that is used stays in its place in a list. */
const lazy = 50;

/** What became of a caller that waited for a lease: a decision, a failure, or neither: it asks for itself. */
export interface Outcome {
  decision?: Decision;
  failed?: boolean;
  unknown: boolean;
}

/** What `all` took from a block. */
export interface Loan {
  entry: Entry;
  id: string;
  lapses: number;
  cost: number;
}

interface Waiter {
  cost: number;
  /** Denied as part of a larger sum before. */
  again: boolean;
  gone: boolean;
  done: (o: Outcome) => void;
}

interface Request {
  sent: number;
  held: number;
  need: number;
  want: number;
  waiters: Waiter[];
}

/** Entry is what the client knows of a key. */
export interface Entry {
  key: string;
  limit: Limit;
  used: number;
  moved: number;
  demand: Demand;
  /** Whether the call that comes next was counted already. */
  counted: boolean;
  /** The name of the block at the server: empty while the key is not leased. */
  id: string;
  seq: number;
  block: Block;
  sent: number;
  pending: Request | undefined;
  waiting: Waiter[];
  /** It gives its block back after the reply, and is not found any more. */
  retired: boolean;
  capacity: number;
  resetAt: number;
  askAlone: number;
}

interface Io {
  lease(args: string[]): Promise<{ value: Grant } | Failure>;
  give(args: string[]): Promise<unknown>;
  /** Whether commands may be sent. */
  ready(): boolean;
  holders(key: string, holders: number, granted: boolean, now: number): void;
}

/** Leases decides from units that the process holds. */
export class Leases {
  admitted = 0;
  readonly #io: Io;
  readonly #runtime: Runtime;
  readonly #denials: Denials;
  readonly #ttl: number;
  readonly #most: number;
  readonly #entries = new Map<string, Entry>();
  // The first entry of each is the one that was used longest ago.
  readonly #leased = new Set<Entry>();
  readonly #others = new Set<Entry>();
  readonly #began: number;
  readonly #gifts: string[][] = [];
  readonly #under = new Set<Promise<unknown>>();
  #giving = 0;
  #sweep: (() => void) | undefined;
  #closed = false;

  constructor(o: LeaseOptions, runtime: Runtime, denials: Denials, io: Io) {
    this.#ttl = typeof o.leaseTtl === "string" ? duration(o.leaseTtl) : (o.leaseTtl ?? 2000);
    if (!(this.#ttl >= 100 && this.#ttl <= 60_000)) throw new RangeError(`headgate: leaseTtl is ${o.leaseTtl}, it must be 100ms to 60s`);
    this.#most = o.maxLeases === undefined ? 10_000 : whole("maxLeases", o.maxLeases, 0);
    this.#io = io;
    this.#runtime = runtime;
    this.#denials = denials;
    this.#began = runtime.now();
  }

  get size(): number {
    return this.#leased.size;
  }

  /** take decides a call without the server, if it can. */
  take(key: string, limit: Limit, cost: number, now: number): Decision | undefined {
    if (!limit.leased) return undefined;
    const e = this.#entry(key, limit, now);
    if (e.counted) e.counted = false;
    else e.demand.ask(cost, now);
    const d = this.#locally(e, cost, now);
    if (d) {
      if (d.source === "lease") this.admitted++;
      if (!e.pending && e.id !== "" && now >= e.askAlone && this.#io.ready() && e.block.low(now)) this.#ask(e, now);
    }
    return d;
  }

  /** wait asks for units with a lease, if the key is leased. take has been asked before. */
  wait(key: string, limit: Limit, cost: number, now: number, timeout: number, signal: AbortSignal | undefined): Promise<Outcome> | undefined {
    const e = limit.leased ? this.#entries.get(key) : undefined;
    if (!e || !this.#io.ready() || !this.#lease(e, now)) return undefined;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        w.gone = true;
        cancel();
        signal?.removeEventListener("abort", abort);
      };
      const abort = (): void => {
        leave();
        reject(signal!.reason as Error);
      };
      const w: Waiter = {
        cost, again: false, gone: false,
        done: (o) => {
          leave();
          resolve(o);
        },
      };
      // A call waits so long in all, whatever it waits for.
      const cancel = this.#runtime.timer(timeout, () => w.done({ failed: true, unknown: !e.waiting.includes(w) }), false);
      signal?.addEventListener("abort", abort, { once: true });
      e.waiting.push(w);
      if (!e.pending) this.#ask(e, now);
    });
  }

  /** fetch asks for units for calls to come. take has been asked before. */
  fetch(key: string, limit: Limit, now: number): void {
    const e = limit.leased ? this.#entries.get(key) : undefined;
    if (!e) return;
    e.counted = true;
    if (this.#io.ready() && this.#lease(e, now) && !e.pending) this.#ask(e, now);
  }

  /** borrow decides one limit of `all`, if it can. What it took is put back or spent by settle. */
  borrow(key: string, limit: Limit, cost: number, now: number): { decision?: Decision; loan?: Loan } | undefined {
    if (!limit.leased) return undefined;
    const e = this.#entry(key, limit, now);
    e.demand.ask(cost, now);
    const d = this.#locally(e, cost, now);
    let loan: Loan | undefined;
    if (d?.allowed) {
      this.admitted++;
      e.block.lent += cost;
      loan = { entry: e, id: e.id, lapses: e.block.lapses, cost };
    }
    // A request brings units for calls to come. This one does not wait for it.
    if (this.#io.ready() && this.#lease(e, now) && !e.pending && ((!d && e.block.stock < cost) || e.block.low(now))) this.#ask(e, now);
    return { ...(d && { decision: d }), ...(loan && { loan }) };
  }

  /** settle ends loans: the units are spent, or put back. What has lapsed or gone back since stays away. */
  settle(loans: readonly Loan[], spent: boolean): void {
    const now = this.#runtime.now();
    for (const l of loans) {
      const b = l.entry.block;
      if (l.entry.id === l.id) {
        b.settle(now);
        if (b.lapses === l.lapses) {
          b.lent -= l.cost;
          if (!spent) b.stock += l.cost;
        }
      }
      if (!spent) this.admitted--;
    }
  }

  /** close gives all blocks back, and waits until the server has answered. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#sweep?.();
    const now = this.#runtime.now();
    for (const e of [...this.#entries.values()]) this.#retire(e, now);
    while (this.#under.size > 0) await Promise.all(this.#under);
  }

  /** entry returns what is known of a key, as of the one that was used last. */
  #entry(key: string, limit: Limit, now: number): Entry {
    let e = this.#entries.get(key);
    if (e && e.limit !== limit && !e.limit.equals(limit)) {
      this.#retire(e, now);
      e = undefined;
    }
    if (!e) {
      if (this.#others.size >= watched * this.#most + leastWatched) this.#retire(first(this.#others)!, now);
      e = {
        key, limit, used: now, moved: now, demand: new Demand(now), counted: false, id: "", seq: 0, block: new Block(), sent: 0,
        pending: undefined, waiting: [], retired: false, capacity: 0, resetAt: 0, askAlone: 0,
      };
      this.#entries.set(key, e);
      this.#others.add(e);
      this.#schedule(now);
    }
    e.used = now;
    if (now - e.moved >= lazy) {
      e.moved = now;
      const list = e.id !== "" ? this.#leased : this.#others;
      list.delete(e);
      list.add(e);
    }
    return e;
  }

  #locally(e: Entry, cost: number, now: number): Decision | undefined {
    if (e.id !== "") {
      e.block.settle(now);
      if (e.block.spend(cost)) return local(e, now);
    }
    const d = this.#denials.recall(e.key, e.limit, cost, now);
    if (d || e.id === "" || now >= e.block.deadline) return d;
    const wait = e.block.due(now, cost);
    if (wait <= 0) return undefined;
    return decision(false, e.capacity, e.block.left + e.block.stock, Math.ceil(wait), Math.max(Math.ceil(e.resetAt - now), 0), 0, "denied");
  }

  /** lease makes a key leased if it is asked for often enough and there is room. */
  #lease(e: Entry, now: number): boolean {
    if (now < e.askAlone) return false;
    if (e.id !== "") return true;
    if (this.#closed || !e.demand.hot()) return false;
    if (this.#leased.size >= this.#most) {
      // One that is used as often as a leased key must be stays: to put it out would cost more calls than it saves.
      const old = first(this.#leased);
      if (!old || now - old.used < 2000 / hotRate) return false;
      this.#retire(old, now);
    }
    this.#others.delete(e);
    // A process that is started again, and a worker of a cluster, has other blocks.
    e.id = randomBytes(16).toString("hex");
    e.seq = 0;
    e.block = new Block();
    this.#leased.add(e);
    return true;
  }

  /** unlease gives the block of a key without a request back. */
  #unlease(e: Entry, now: number): void {
    this.#giveBack(e, now);
    this.#leased.delete(e);
    e.id = "";
    e.block = new Block();
    this.#others.add(e);
  }

  /** retire forgets a key. Callers that wait get their answer, and its block goes back. */
  #retire(e: Entry, now: number): void {
    this.#entries.delete(e.key);
    this.#leased.delete(e);
    this.#others.delete(e);
    e.retired = true;
    if (!e.pending) this.#giveBack(e, now);
  }

  /** giveBack sends an RL.RETURN for what is left of a block without a request. */
  #giveBack(e: Entry, now: number): void {
    if (e.id === "") return;
    e.block.settle(now);
    const refill = e.block.refill > e.block.taken;
    e.block.held();
    const { stock, lapses } = e.block;
    if (stock === 0 && !refill) return;
    e.seq++;
    // What `all` has lent is spent: it must not come back into a later block.
    e.block = new Block();
    e.block.lapses = lapses + 1;
    this.#gifts.push(["RL.RETURN", e.key, "ID", e.id, "SEQ", String(e.seq), "HELD", String(stock)]);
    this.#give();
  }

  #give(): void {
    while (this.#giving < returning && this.#gifts.length > 0) {
      this.#giving++;
      // If it is lost, the units come back at the deadline.
      this.#track(this.#io.give(this.#gifts.shift()!).catch(() => {}).then(() => {
        this.#giving--;
        this.#give();
      }));
    }
  }

  #track(p: Promise<unknown>): void {
    const q = p.finally(() => this.#under.delete(q));
    this.#under.add(q);
  }

  /** ask sends a request for a lease of a key without one under way. It asks for all that callers wait for. */
  #ask(e: Entry, now: number): void {
    e.block.settle(now);
    e.seq++;
    const waiters = e.waiting.filter((w) => !w.gone);
    e.waiting = [];
    const r: Request = {
      sent: now, held: e.block.held(), want: e.demand.want(this.#ttl, now), waiters,
      need: waiters.reduce((sum, w) => sum + w.cost, 0),
    };
    e.pending = r;
    e.sent = now;
    const args = e.limit.command("RL.LEASE", e.key, ["ID", e.id, "SEQ", String(e.seq), "WANT", String(r.want), "HELD", String(r.held),
      "NEED", String(r.need), "TTL", periodText(this.#ttl)]);
    this.#track(this.#io.lease(args).then((o) => ("value" in o ? this.#answer(e, r, o.value) : this.#failed(e, r, o)),
      () => this.#failed(e, r, undefined)));
  }

  #failed(e: Entry, r: Request, failure: Failure | undefined): void {
    e.pending = undefined;
    const now = this.#runtime.now();
    e.block.settle(now);
    e.askAlone = now + pause;
    // After an error of the server that may be the caller's, the plain call tells it.
    const plain = !failure || failure.error.message.startsWith("ERR ");
    for (const w of r.waiters) w.done(plain ? { unknown: false } : { failed: true, unknown: failure.unknown });
    this.#proceed(e, now);
  }

  #answer(e: Entry, r: Request, g: Grant): void {
    e.pending = undefined;
    const now = this.#runtime.now();
    if (g.holders > 0) this.#io.holders(e.key, g.holders, g.ttl > 0, now);
    e.block.settle(now);
    e.resetAt = now + g.decision.resetAfter;
    e.capacity = g.decision.limit;
    if (g.ttl === 0) {
      this.#serve(e, r, g, now);
      // What is held goes back: the server gives no lease now. The id stays, so that it counts one holder.
      e.askAlone = now + this.#ttl / 40;
      this.#giveBack(e, now);
    } else {
      e.block.grant(g, r.sent, now, r.need, r.want - r.held);
      this.#serve(e, r, g, now);
    }
    this.#proceed(e, now);
  }

  /** serve answers the callers that a reply was for. It was for all of them or for none. */
  #serve(e: Entry, r: Request, g: Grant, now: number): void {
    if (g.decision.allowed) {
      for (const w of r.waiters) w.done({ decision: g.decision, unknown: false });
      return;
    }
    let left = g.decision.remaining;
    for (const w of r.waiters) {
      if (e.block.spend(w.cost)) {
        this.admitted++;
        w.done({ decision: local(e, now), unknown: false });
      } else if (w.cost < r.need && w.cost <= left && !w.again) {
        left -= w.cost;
        w.again = true;
        e.waiting.push(w);
      } else {
        let d = g.decision;
        if (d.retryAfter > 0) {
          // The wait was for the sum of all who waited.
          const less = (e.limit.period / e.limit.units) * (r.need - w.cost);
          d = { ...d, retryAfter: Math.max(d.retryAfter - less, 1) };
        }
        if (this.#denials.weaker(e.key, w.cost, now)) this.#denials.remember(e.key, e.limit, w.cost, d, now);
        w.done({ decision: { ...d, retryAfter: Math.ceil(d.retryAfter) }, unknown: false });
      }
    }
  }

  /** proceed answers the callers that came while a request was under way, and asks for what they need. */
  #proceed(e: Entry, now: number): void {
    const waiting = e.waiting;
    e.waiting = [];
    for (const w of waiting) {
      if (w.gone) continue;
      const d = this.#locally(e, w.cost, now);
      if (d && (!w.again || d.allowed)) {
        if (d.allowed) this.admitted++;
        w.done({ decision: d, unknown: false });
      } else if (e.id === "" || e.retired || now < e.askAlone || !this.#io.ready()) w.done({ unknown: false });
      else e.waiting.push(w);
    }
    if (e.retired) this.#giveBack(e, now);
    else if (e.waiting.length > 0) this.#ask(e, now);
  }

  /** schedule looks after keys that nobody asks for, while there are any. */
  #schedule(now: number): void {
    if (this.#sweep || this.#closed) return;
    const every = Math.min(this.#ttl / 20, 100);
    const past = now - this.#began;
    this.#sweep = this.#runtime.timer(every - (past % every), () => {
      this.#sweep = undefined;
      const at = this.#runtime.now();
      this.#tend(at);
      if (this.#entries.size > 0) this.#schedule(at);
    }, true);
  }

  /** tend renews blocks that would lapse, gives back those that are not used any more, and forgets keys. */
  #tend(now: number): void {
    for (const e of [...this.#leased]) if (!e.pending) this.#look(e, now);
    for (const e of this.#others) {
      if (now - e.used < this.#ttl) break;
      this.#retire(e, now);
    }
  }

  /** look renews a block when three fifths of its time are over, and gives it back if it is hardly used. */
  #look(e: Entry, now: number): void {
    const held = e.block.deadline > e.sent;
    // The server may have given nothing. It counts the id all the same, as one that wants units.
    const lasts = held ? e.block.deadline - e.sent : this.#ttl;
    if (now < e.sent + (lasts * 3) / 5) return;
    if (e.used > e.sent && e.demand.rates(now)[0] >= hotRate / 2) {
      if (held && now >= e.askAlone && this.#io.ready()) this.#ask(e, now);
    } else if (now >= e.sent + (lasts * 4) / 5) this.#unlease(e, now);
  }
}

/** local returns the answer to a call that the block admits. */
function local(e: Entry, now: number): Decision {
  return decision(true, e.capacity, e.block.left + e.block.stock, 0, Math.max(Math.ceil(e.resetAt - now), 0), 0, "lease");
}

function first<T>(of: Set<T>): T | undefined {
  for (const v of of) return v;
  return undefined;
}

/** How long demand is measured before it is averaged with what was before. */
const span = 500;
/** The shortest time that a rate is taken from: fewer calls are chance. */
const leastSpan = 100;

/** Demand measures how often a key is asked for. Rates are by the second. */
export class Demand {
  #calls = 0;
  #units = 0;
  #callRate = 0;
  #unitRate = 0;

  constructor(private began: number) {}

  /** ask notes a call. */
  ask(units: number, now: number): void {
    const past = now - this.began;
    if (past >= span) {
      // After so long what was before is of no use.
      [this.#callRate, this.#unitRate] = past >= 4 * span ? [0, 0] : this.rates(now);
      this.#calls = this.#units = 0;
      this.began = now;
    }
    this.#calls++;
    this.#units += units;
  }

  /** rates returns calls and units a second. */
  rates(now: number): [number, number] {
    const past = now - this.began;
    if (this.#callRate === 0) {
      const s = Math.max(past, leastSpan) / 1000;
      return [this.#calls / s, this.#units / s];
    }
    if (past < leastSpan) return [this.#callRate, this.#unitRate];
    const s = past / 1000;
    return [(this.#callRate + this.#calls / s) / 2, (this.#unitRate + this.#units / s) / 2];
  }

  /** hot reports whether a key without a lease is asked for often enough for one. */
  hot(): boolean {
    return this.#calls > (hotRate * span) / 1000 || this.#callRate >= hotRate;
  }

  /** want returns how many units the process would use within ttl. */
  want(ttl: number, now: number): number {
    // Rates are not exact.
    return Math.max(Math.min(Math.ceil(this.rates(now)[1] * (ttl / 1000) - 1e-6), 2 ** 52), 0);
  }
}
