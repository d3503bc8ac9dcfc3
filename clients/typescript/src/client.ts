import { Breaker } from "./breaker.js";
import {
  checkReply, countReply, decision, grantReply, limitReply, plainReply, slotsReply, type Decision,
} from "./decision.js";
import { Denials } from "./denials.js";
import { classify, HeadgateError, NotSentError, type Failure } from "./errors.js";
import { closed as closedDecision, Debts, Fallback, Lru, open as openDecision, type Asked } from "./fallback.js";
import { Leases, type LeaseOptions, type Loan } from "./lease.js";
import { duration, onFailureOf, periodText, whole, type Limit, type OnFailure, Policy } from "./limit.js";
import { system, type Runtime } from "./runtime.js";
import type { Transport } from "./transport.js";

export interface Options extends LeaseOptions {
  /** For how long a call waits for the server, in milliseconds: 50 by default. */
  timeout?: number;
  /** How many processes share the limits. Without it, each takes a fifth of them while the server is away. */
  processes?: number;
  /** Is told when the server is away, and when it is back, and of a wrong configuration: `console.warn`, and `console.error`, by default. */
  log?: (message: string, level: "warn" | "error") => void;
  /** @internal */
  runtime?: Runtime;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** One limit of a call to `all`. */
export interface KeyLimit {
  key: string;
  limit: Limit;
  /** 1 by default. */
  cost?: number;
}

export type Attributes = Readonly<Record<string, string | number>>;

export interface CheckOptions extends CallOptions {
  /** Multiplies the costs of the policy's limits: 1 by default. */
  cost?: number;
  /** A name of the call. With the same name it is charged once. */
  id?: string;
}

export interface ReserveOptions extends CheckOptions {
  /** For how long the units are held, in milliseconds or as `30s`. */
  ttl?: number | string;
}

/** What `reserve` holds. Settle it once, by `commit` or `cancel`. */
export interface Reservation {
  readonly decision: Decision;
  /** Charges what the call really cost. Without a cost the estimate stays. */
  commit(cost?: number): Promise<Decision>;
  cancel(): Promise<Decision>;
}

/** What `acquire` took. */
export interface Slot {
  readonly decision: Decision;
  release(): Promise<void>;
}

/** Counts since the client was made. */
export interface Stats {
  /** Commands that went to the server. */
  sent: number;
  /** Calls that were admitted from a lease. */
  leased: number;
  /** Calls that were denied without asking. */
  denied: number;
  /** Calls that a failure policy decided. */
  fallback: number;
  /** Commands without a decision of the server. */
  failures: number;
  /** Commands that the server answered with an error of the caller. */
  mistakes: number;
  /** How often the breaker has opened. */
  opened: number;
  /** Units that were charged after the server came back. */
  chargedBack: number;
  /** Units that did not count any more by then. */
  dropped: number;
  /** Keys that are leased now. */
  leases: number;
  state: "closed" | "open";
}

const away: Failure = { error: new NotSentError("the server is away"), unknown: false, again: false };
const aMinute = 60_000;
const defaultShare = 0.2;
const most = 10_000;

/** Asks a Headgate server, and decides itself while the server is away. A process needs one. */
export class Headgate {
  readonly #transport: Transport;
  readonly #runtime: Runtime;
  readonly #timeout: number;
  readonly #log: (message: string, level: "warn" | "error") => void;
  /** @internal The part of a limit that this process has while the server is away. */
  readonly share: number;
  readonly #breaker: Breaker;
  readonly #denials = new Denials();
  readonly #debts = new Debts();
  readonly #fallback: Fallback;
  readonly #leases: Leases | undefined;
  readonly #parts = new Lru<{ part: number; at: number }>(most);
  #closed: Promise<void> | undefined;
  #sent = 0;
  #denied = 0;
  #fell = 0;
  #failures = 0;
  #mistakes = 0;
  #told: number | undefined;

  constructor(transport: Transport, options: Options = {}) {
    const o = options;
    this.#transport = transport;
    this.#runtime = o.runtime ?? system;
    this.#timeout = o.timeout === undefined ? 50 : whole("timeout", o.timeout, 1);
    this.#log = o.log ?? ((m, level) => console[level](m));
    if (o.processes !== undefined) whole("processes", o.processes, 1);
    const share = (this.share = o.processes ? 1 / o.processes : defaultShare);
    this.#fallback = new Fallback((key, now) => {
      const p = this.#parts.size === 0 ? undefined : this.#parts.get(key);
      return p && now - p.at <= aMinute ? p.part : share;
    });
    this.#breaker = new Breaker(this.#runtime, () => this.#ping(), (open, last) => this.#changed(open, last));
    if (o.maxLeases !== 0) {
      this.#leases = new Leases(o, this.#runtime, this.#denials, {
        lease: (args) => this.#request(args, grantReply),
        // While the server is away, a block ends at its deadline.
        give: async (args) => (this.#breaker.open ? undefined : this.#request(args, countReply)),
        ready: () => !this.#breaker.open && !this.#closed,
        // A process that was not granted a lease is none of the holders, and may not be the only one.
        holders: (key, holders, granted, now) =>
          this.#parts.put(key, { part: granted ? 1 / holders : Math.min(1 / (holders + 1), share), at: now }),
      });
    }
  }

  /** `open` while the server is away. */
  get state(): "closed" | "open" {
    return this.#breaker.open ? "open" : "closed";
  }

  stats(): Stats {
    return {
      sent: this.#sent, leased: this.#leases?.admitted ?? 0, denied: this.#denied, fallback: this.#fell, failures: this.#failures, mistakes: this.#mistakes,
      opened: this.#breaker.opened, chargedBack: this.#debts.charged, dropped: this.#debts.dropped,
      leases: this.#leases?.size ?? 0, state: this.state,
    };
  }

  /** Asks for units of a key's limit. A cost of 0 looks and takes nothing. */
  async allow(key: string, limit: Limit, cost = 1, options: CallOptions = {}): Promise<Decision> {
    whole("cost", cost, 0);
    this.#usable(options.signal);
    if (cost > 0) {
      const now = this.#runtime.now();
      const d = this.#here(key, limit, cost, now);
      if (d) return d;
      const leased = this.#leases?.wait(key, limit, cost, now, this.#timeout, options.signal);
      if (leased) {
        const o = await leased;
        this.#usable(options.signal);
        if (o.decision) return o.decision;
        if (o.failed) return this.#fall([asked(key, limit, cost)], o.unknown);
        return this.#plain(key, limit, cost, false, options.signal, now + this.#timeout - this.#runtime.now());
      }
    }
    return this.#plain(key, limit, cost, false, options.signal);
  }

  /**
   * Decides at once, or returns undefined if the server must be asked: call `allow` then. It takes
   * units of a lease, denies what the server has just denied, and falls back while the server is away.
   */
  tryAllow(key: string, limit: Limit, cost = 1): Decision | undefined {
    whole("cost", cost, 1);
    this.#usable(undefined);
    const now = this.#runtime.now();
    const d = this.#here(key, limit, cost, now);
    if (d) return d;
    if (this.#breaker.open) return this.#fall([asked(key, limit, cost)], false);
    this.#leases?.fetch(key, limit, now);
    return undefined;
  }

  /** Says what `allow` would, and takes nothing. */
  async peek(key: string, limit: Limit, cost = 1, options: CallOptions = {}): Promise<Decision> {
    whole("cost", cost, 0);
    this.#usable(options.signal);
    return this.#plain(key, limit, cost, true, options.signal);
  }

  /** Sleeps until the call may pass, but no longer than `atMost` milliseconds in all. It returns the last denial then. */
  async wait(key: string, limit: Limit, cost = 1, atMost = Infinity, options: CallOptions = {}): Promise<Decision> {
    const ends = this.#runtime.now() + atMost;
    for (;;) {
      const d = await this.allow(key, limit, cost, options);
      if (d.allowed || d.retryAfter < 0 || this.#runtime.now() + d.retryAfter > ends) return d;
      await this.#sleep(Math.max(d.retryAfter, 1), options.signal);
    }
  }

  /** Gives units back, which stops at full. While the server is away it is dropped. */
  async refund(key: string, limit: Limit, cost: number, options: CallOptions = {}): Promise<Decision> {
    whole("cost", cost, 1);
    this.#usable(options.signal);
    this.#denials.forget(key);
    const o = await this.#ask(limit.command("RL.LIMIT", key).concat("COST", `-${cost}`), limitReply, options.signal);
    return "error" in o ? openDecision : o.value;
  }

  /**
   * Asks for several limits in one step: the call is charged to all of them, or to none. The decision is
   * about one limit: the one that denied the call, or else the one with the fewest units left.
   */
  async all(calls: readonly KeyLimit[], options: CallOptions = {}): Promise<Decision> {
    this.#usable(options.signal);
    const list = calls.map((c) => asked(c.key, c.limit, whole("cost", c.cost ?? 1, 0)));
    if (list.length === 0) return decision(true, -1, -1, 0, 0, 0, "server");
    if (new Set(list.map((c) => c.key)).size < list.length) {
      throw new HeadgateError("ERR", "headgate: a key stands twice in one call: each limit needs a key of its own");
    }
    const now = this.#runtime.now();
    const loans: Loan[] = [];
    const rest: Asked[] = [];
    let least: Decision | undefined;
    for (const c of list) {
      const b = c.cost > 0 ? this.#leases?.borrow(c.key, c.limit!, c.cost, now) : undefined;
      const d = b?.decision ?? (c.cost > 0 ? this.#denials.recall(c.key, c.limit!, c.cost, now) : undefined);
      if (!d) {
        rest.push(c);
        continue;
      }
      if (!d.allowed) {
        this.#leases?.settle(loans, false);
        this.#denied++;
        return d;
      }
      if (b?.loan) loans.push(b.loan);
      if (!least || d.remaining < least.remaining) least = d;
    }
    if (rest.length === 0) {
      this.#leases?.settle(loans, true);
      return least!;
    }
    const args = rest.flatMap((c, i) => [...(i > 0 ? ["AND"] : []), ...cost(c.limit!.command("RL.LIMIT", c.key), c.cost).slice(i > 0 ? 1 : 0)]);
    let o;
    try {
      o = await this.#ask(args, limitReply, options.signal);
    } catch (e) {
      this.#leases?.settle(loans, false);
      throw e;
    }
    const d = "error" in o ? this.#fall(rest, o.unknown) : o.value;
    this.#leases?.settle(loans, d.allowed);
    if (d.allowed && least && least.remaining < d.remaining) return { ...least, source: d.source, delay: d.delay, degraded: d.degraded };
    return d;
  }

  /** Asks for a call that has the attributes, by a policy of the server. */
  async check(policy: Policy | string, attributes: Attributes, options: CheckOptions = {}): Promise<Decision> {
    const call = this.#policyCall("RL.CHECK", policy, attributes, options);
    const plain = options.id === undefined && call.cost > 0;
    const known = plain ? this.#denials.recall(call.key, undefined, call.cost, this.#runtime.now()) : undefined;
    if (known) {
      this.#denied++;
      return known;
    }
    const o = await this.#ask(call.args, checkReply, options.signal).catch((e) => mistaken(e, () => this.#fallPolicy(call, true)));
    if ("error" in o) return this.#fallPolicy(call, o.unknown);
    if (plain && !o.value.allowed) this.#denials.remember(call.key, undefined, call.cost, o.value, this.#runtime.now());
    return o.value;
  }

  /** Is `check` by an estimate of the cost. It holds what it charged until it is settled. */
  async reserve(policy: Policy | string, attributes: Attributes, options: ReserveOptions = {}): Promise<Reservation> {
    const call = this.#policyCall("RL.RESERVE", policy, attributes, options);
    if (options.ttl !== undefined) call.args.push("TTL", periodText(millis("ttl", options.ttl)));
    const o = await this.#ask(call.args, checkReply, options.signal);
    const d = "error" in o ? this.#fallPolicy(call, o.unknown) : o.value;
    const settle = async (args: string[]): Promise<Decision> => {
      this.#usable(undefined);
      if (d.hold === null) return d;
      const s = await this.#ask([args[0]!, d.hold, ...args.slice(1)], checkReply, undefined);
      return "error" in s ? openDecision : s.value;
    };
    return {
      decision: d,
      commit: async (spent) => settle(spent === undefined ? ["RL.COMMIT"] : ["RL.COMMIT", "COST", String(whole("cost", spent, 0))]),
      cancel: async () => settle(["RL.CANCEL"]),
    };
  }

  /** Takes one of `slots` places for calls that run at once, for `ttl` at most. */
  async acquire(key: string, slots: number, ttl: number | string,
    options: CallOptions & { onFailure?: OnFailure } = {}): Promise<Slot> {
    whole("slots", slots, 0);
    const time = millis("ttl", ttl);
    const onFailure = onFailureOf(options.onFailure);
    this.#usable(options.signal);
    const o = await this.#ask(["RL.ACQUIRE", key, String(slots), periodText(time)], slotsReply, options.signal);
    if ("error" in o) {
      this.#fell++;
      const f = this.#fallback.acquire(key, slots, time, onFailure, this.#runtime.now());
      return { decision: f.decision, release: async () => f.release() };
    }
    let id = o.value.id;
    return {
      decision: o.value.decision,
      release: async () => {
        if (id === null || !o.value.decision.allowed) return;
        const args = ["RL.RELEASE", key, id];
        id = null;
        await this.#ask(args, countReply, undefined);
      },
    };
  }

  /** Makes a limit full again. If the server cannot be asked, it is an error: nothing is reset then. */
  async reset(key: string, options: CallOptions = {}): Promise<void> {
    this.#usable(options.signal);
    const o = await this.#ask(["RL.RESET", key], countReply, options.signal);
    if ("error" in o) {
      throw new HeadgateError("UNAVAILABLE", `headgate: '${key}' may not be reset: ${o.error.message}`, { cause: o.error });
    }
    this.#denials.forget(key);
  }

  /**
   * Is for a service that goes on although its limiter is configured wrongly, such as middleware. If the server
   * answered a call with an error, it returns what the failure policy decides, and tells the log, once a minute at most.
   */
  async despite(call: Promise<Decision>): Promise<Decision> {
    try {
      return await call;
    } catch (e) {
      if (!(e instanceof HeadgateError) || !e.decision) throw e;
      const now = this.#runtime.now();
      if (this.#told === undefined || now - this.#told >= aMinute) {
        this.#told = now;
        this.#log(`headgate: the limiter is configured wrongly, failure policies decide: ${e.message}`, "error");
      }
      return e.decision;
    }
  }

  /** Gives back what is leased, and ends the connection if the client made it. Later calls are errors. */
  close(): Promise<void> {
    return (this.#closed ??= (async () => {
      this.#breaker.close();
      await this.#leases?.close();
      await this.#transport.close?.();
    })());
  }

  #usable(signal: AbortSignal | undefined): void {
    if (this.#closed) throw new HeadgateError("CLOSED", "headgate: the client is closed");
    signal?.throwIfAborted();
  }

  /** here decides without the server, if it can. */
  #here(key: string, limit: Limit, cost: number, now: number): Decision | undefined {
    const d = this.#leases?.take(key, limit, cost, now) ?? this.#denials.recall(key, limit, cost, now);
    if (d && !d.allowed) this.#denied++;
    return d;
  }

  async #plain(key: string, limit: Limit, n: number, peek: boolean, signal: AbortSignal | undefined, timeout?: number): Promise<Decision> {
    const args = cost(limit.command("RL.LIMIT", key), n);
    if (peek) args.push("PEEK");
    const of = [asked(key, limit, n)];
    const o = await this.#ask(args, limitReply, signal, timeout).catch((e) => mistaken(e, () => this.#fall(of, true, peek)));
    if ("error" in o) return this.#fall(of, o.unknown, peek);
    if (!o.value.allowed && !peek && n > 0) this.#denials.remember(key, limit, n, o.value, this.#runtime.now());
    return o.value;
  }

  /** fall decides in place of the server, and remembers what is to be charged. */
  #fall(calls: Asked[], unknown: boolean, peek = false): Decision {
    this.#fell++;
    const now = this.#runtime.now();
    const d = this.#fallback.decide(calls, now, peek);
    if (d.allowed && !peek && !unknown) {
      for (const { key, limit, cost: n } of calls) {
        const args = limit!.command("RL.LIMIT", key);
        this.#debts.add(args.join("\0"), limit, n, now, (sum) => cost(args, sum).concat("FORCE"));
      }
    }
    return d;
  }

  #policyCall(command: string, of: Policy | string, attributes: Attributes, o: CheckOptions): PolicyCall {
    this.#usable(o.signal);
    const policy = typeof of === "string" ? new Policy(of) : of;
    const n = whole("cost", o.cost ?? 1, 0);
    const pairs = Object.keys(attributes).sort().flatMap((name) => [name, String(attributes[name])]);
    const args = cost([command, policy.name, ...pairs], n);
    if (o.id !== undefined) args.push("ID", o.id);
    return { policy, args, pairs, cost: n, key: ["\0policy", policy.name, ...pairs].join("\0") };
  }

  #fallPolicy({ policy, pairs, cost: n, key }: PolicyCall, unknown: boolean): Decision {
    this.#fell++;
    const now = this.#runtime.now();
    const d = this.#fallback.decide([{ key, limit: policy.limit, onFailure: policy.onFailure, cost: n }], now);
    if (d.allowed && !unknown) {
      this.#debts.add(key, policy.limit, n, now, (sum) => cost(["RL.CHECK", policy.name, ...pairs], sum).concat("FORCE"));
    }
    return d;
  }

  /** ask sends a command unless the breaker is open. It throws the caller's mistakes only. */
  async #ask<T>(args: string[], parse: (reply: unknown) => T, signal: AbortSignal | undefined, timeout?: number): Promise<{ value: T } | Failure> {
    if (this.#breaker.open) return away;
    return this.#request(args, parse, signal, timeout);
  }

  #request<T>(args: string[], parse: (reply: unknown) => T, signal?: AbortSignal, timeout = this.#timeout,
    probe = false): Promise<{ value: T } | Failure> {
    return new Promise((resolve, reject) => {
      let sent = false;
      let done = false;
      let again = true;
      const end = (): boolean => {
        if (done) return false;
        done = true;
        cancel();
        signal?.removeEventListener("abort", abort);
        return true;
      };
      const fail = (f: Failure): void => {
        if (!end()) return;
        this.#failures++;
        if (!probe) this.#breaker.failure(f.error);
        resolve(f);
      };
      const abort = (): void => {
        if (end()) reject(signal!.reason as Error);
      };
      const cancel = this.#runtime.timer(timeout, () => {
        const error = new Error(`headgate: ${args[0]} had no answer within ${this.#timeout} ms`);
        fail({ error, unknown: sent, again: false });
      }, false);
      signal?.addEventListener("abort", abort);
      const send = (): void => {
        if (done) return;
        sent = true;
        this.#sent++;
        let reply: Promise<unknown>;
        try {
          reply = this.#transport.send(args);
        } catch (e) {
          reply = Promise.reject(e as Error);
        }
        reply.then(parse).then((value) => {
          if (!end()) return;
          if (!probe) this.#succeeded();
          resolve({ value });
        }, (e: unknown) => {
          const f = classify(e);
          if (f instanceof HeadgateError) {
            if (!end()) return;
            this.#mistakes++;
            if (!probe) this.#succeeded();
            reject(f);
          } else if (f.again && again) {
            again = false;
            send();
          } else fail(f);
        });
      };
      const starting = this.#transport.starting;
      if (starting) void starting.then(send);
      else send();
    });
  }

  async #ping(): Promise<boolean> {
    const o = await this.#request(["PING"], plainReply, undefined, this.#timeout, true).catch((error: Error) => ({ error }));
    if ("value" in o && o.value === "PONG") return true;
    if (!this.#closed) this.#transport.renew?.();
    return false;
  }

  #succeeded(): void {
    this.#breaker.success();
    this.#chargeBack();
  }

  #changed(open: boolean, last: Error | undefined): void {
    if (open) this.#log(`headgate: the server is away, limits are decided here: ${last?.message ?? ""}`, "warn");
    else {
      this.#log("headgate: the server is back", "warn");
      this.#chargeBack();
    }
  }

  #chargeBack(): void {
    if (this.#debts.size === 0 || this.#breaker.open || this.#closed) return;
    void this.#debts.settle(() => this.#runtime.now(), (args) => this.#request(args, plainReply), () => !this.#breaker.open && !this.#closed);
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        cancel();
        reject(signal!.reason as Error);
      };
      const cancel = this.#runtime.timer(ms, () => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, false);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}

interface PolicyCall {
  policy: Policy;
  args: string[];
  pairs: string[];
  cost: number;
  /** Names the policy and the attributes. */
  key: string;
}

/** Whether the failure policy `closed` denied the call: the answer of HTTP is 503 then. */
export function unavailable(d: Decision): boolean {
  return d === closedDecision || (!d.allowed && d.source === "fallback" && d.limit < 0);
}

/** Adds to an error of the server what the failure policy decides. Nothing of it is charged. */
function mistaken(e: unknown, decide: () => Decision): never {
  if (e instanceof HeadgateError) e.decision = decide();
  throw e;
}

const asked = (key: string, limit: Limit, n: number): Asked => ({ key, limit, onFailure: limit.onFailure, cost: n });

const cost = (args: string[], n: number): string[] => (n === 1 ? args : [...args, "COST", String(n)]);

function millis(name: string, t: number | string): number {
  return whole(name, typeof t === "string" ? duration(t) : t, 1);
}
