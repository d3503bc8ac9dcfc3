// A clock and a server of a script.
import type { Runtime, Transport } from "../dist/esm/index.js";
import { NotSentError, ServerError } from "../dist/esm/index.js";

interface Timer {
  at: number;
  n: number;
  f: () => void;
}

/** A clock that stands still until it is told to go on. */
export class Clock implements Runtime {
  #now = 0;
  #n = 0;
  readonly timers = new Set<Timer>();

  now = (): number => this.#now;
  date = (): number => this.#now;
  random = (): number => 0.5;
  timer = (ms: number, f: () => void): (() => void) => {
    const t = { at: this.#now + ms, n: this.#n++, f };
    this.timers.add(t);
    return () => void this.timers.delete(t);
  };

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const t of this.timers) if (!next || t.at < next.at || (t.at === next.at && t.n < next.n)) next = t;
    return next;
  }

  /** step runs the timer that is due next. */
  async step(): Promise<boolean> {
    const t = this.#next();
    if (!t) return false;
    this.timers.delete(t);
    this.#now = Math.max(this.#now, t.at);
    t.f();
    await settle();
    return true;
  }

  /** advance runs what is due before a time, or by then too, and ends there. */
  async advance(to: number, inclusive: boolean): Promise<void> {
    for (let t = this.#next(); t && (inclusive ? t.at <= to : t.at < to); t = this.#next()) await this.step();
    this.#now = Math.max(this.#now, to);
  }
}

/** settle lets all that does not wait for a timer come to its end. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise((r) => setImmediate(r));
}

export interface Expectation {
  expect: string[];
  reply?: unknown;
  error?: string;
  fail?: "refused" | "broken" | "timeout";
}

/** A server that expects commands in order. */
export class Script implements Transport {
  expected: Expectation[] = [];
  readonly wrong: string[] = [];

  send(args: readonly string[]): Promise<unknown> {
    const e = this.expected.shift();
    if (!e || e.expect.length !== args.length || e.expect.some((a, i) => a !== "*" && a !== args[i])) {
      this.wrong.push(`sent ${JSON.stringify(args)}, expected ${JSON.stringify(e?.expect ?? "nothing")}`);
      return new Promise(() => {});
    }
    if (e.fail === "refused") return Promise.reject(new NotSentError("connection refused"));
    if (e.fail === "broken") return Promise.reject(new Error("connection reset"));
    if (e.fail === "timeout") return new Promise(() => {});
    if (e.error !== undefined) return Promise.reject(new ServerError(e.error));
    return Promise.resolve(e.reply);
  }
}
