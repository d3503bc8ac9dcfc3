/** How a limit counts. docs/algorithms.md of Headgate compares them. */
export type Algorithm = "token" | "leaky" | "fixed" | "sliding" | "log";

/** What answers while the server is away: a share of the limit, "yes" or "no". */
export type OnFailure = "local" | "open" | "closed";

export interface LimitOptions {
  /** The capacity of `token` and `leaky`. The default is `units`. */
  burst?: number;
  /** `token` by default. */
  algorithm?: Algorithm;
  /** `local` by default. */
  onFailure?: OnFailure;
  /** Whether the client may take leases of it. By default it may, for `token`, `fixed` and `sliding`. */
  leased?: boolean;
}

const algorithms = ["token", "leaky", "fixed", "sliding", "log"];
const century = 100 * 365.25 * 86_400_000;

/** How many units a key may use. Every process must use the same limit for a key. */
export class Limit {
  readonly units: number;
  /** In milliseconds. */
  readonly period: number;
  readonly algorithm: Algorithm;
  readonly burst: number;
  readonly onFailure: OnFailure;
  readonly leased: boolean;
  /** The most that one call can get. */
  readonly capacity: number;
  /** What commands say of the limit after the key, and the options of it. */
  readonly #args: readonly string[];
  readonly #options: readonly string[];

  /** `period` is in milliseconds, or a duration such as `1s`, `500ms` or `1h30m`. */
  constructor(units: number, period: number | string, options: LimitOptions = {}) {
    this.units = whole("units", units, 0);
    this.period = typeof period === "string" ? duration(period) : period;
    if (!(Number.isInteger(this.period) && this.period >= 1 && this.period <= century)) {
      throw new RangeError(`headgate: period is ${period}, it must be whole milliseconds from 1 ms to 100 years`);
    }
    this.algorithm = oneOf("algorithm", options.algorithm ?? "token", algorithms) as Algorithm;
    const bucket = this.algorithm === "token" || this.algorithm === "leaky";
    if (options.burst !== undefined && !bucket) {
      throw new RangeError(`headgate: burst is for token and leaky only, not for ${this.algorithm}`);
    }
    this.burst = options.burst === undefined ? this.units : whole("burst", options.burst, 1);
    this.onFailure = onFailureOf(options.onFailure);
    this.leased = (options.leased ?? true) && this.units > 1 && this.algorithm !== "leaky" && this.algorithm !== "log";
    this.capacity = this.units === 0 ? 0 : this.burst;
    this.#args = [String(this.units), periodText(this.period)];
    const more: string[] = [];
    if (this.algorithm !== "token") more.push("ALGORITHM", this.algorithm);
    if (this.burst !== this.units) more.push("BURST", String(this.burst));
    this.#options = more;
  }

  /** The time in which an empty limit admits its whole capacity, in milliseconds. */
  get window(): number {
    if (this.units === 0) return 0;
    return this.algorithm === "token" || this.algorithm === "leaky" ? (this.burst * this.period) / this.units : this.period;
  }

  /** Whether both say the same. */
  equals(other: Limit): boolean {
    return this === other || (this.units === other.units && this.period === other.period &&
      this.algorithm === other.algorithm && this.burst === other.burst && this.leased === other.leased &&
      this.onFailure === other.onFailure);
  }

  /** @internal The arguments of a command: `between` stands after the period, before the options. */
  command(name: string, key: string, between: readonly string[] = []): string[] {
    return [name, key, ...this.#args, ...between, ...this.#options];
  }
}

/** A token bucket of `units` per second. */
export const perSecond = (units: number, options?: LimitOptions): Limit => new Limit(units, 1000, options);
/** A token bucket of `units` per minute. */
export const perMinute = (units: number, options?: LimitOptions): Limit => new Limit(units, 60_000, options);
/** A token bucket of `units` per hour. */
export const perHour = (units: number, options?: LimitOptions): Limit => new Limit(units, 3_600_000, options);
/** A token bucket of `units` per day. */
export const perDay = (units: number, options?: LimitOptions): Limit => new Limit(units, 86_400_000, options);

export interface PolicyOptions {
  /** `local` by default. Without a `limit` that is `open`. */
  onFailure?: OnFailure;
  /** Stands for the policy while the server is away. */
  limit?: Limit;
}

/** The name of a policy on the server, and what answers in its place while the server is away. */
export class Policy {
  readonly name: string;
  readonly onFailure: OnFailure;
  readonly limit: Limit | undefined;

  constructor(name: string, options: PolicyOptions = {}) {
    if (typeof name !== "string" || name === "") throw new TypeError("headgate: a policy needs a name");
    this.name = name;
    this.limit = options.limit;
    const wish = onFailureOf(options.onFailure);
    this.onFailure = wish === "local" && !options.limit ? "open" : wish;
  }
}

/** @internal */
export function onFailureOf(v: OnFailure | undefined): OnFailure {
  return oneOf("onFailure", v ?? "local", ["local", "open", "closed"]) as OnFailure;
}

function oneOf(name: string, v: string, of: readonly string[]): string {
  if (!of.includes(v)) throw new RangeError(`headgate: ${name} is ${v}, it must be ${of.join(", ")}`);
  return v;
}

/** @internal */
export function whole(name: string, v: number, least: number): number {
  if (!Number.isSafeInteger(v) || v < least) {
    throw new RangeError(`headgate: ${name} is ${v}, it must be a whole number of ${least} or more`);
  }
  return v;
}

/** @internal Whole seconds, or else whole milliseconds. */
export function periodText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

const unit: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** @internal Milliseconds of a duration such as `1h30m`. */
export function duration(text: string): number {
  let sum = 0;
  const rest = text.replace(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g, (_, n: string, u: string) => {
    sum += Number(n) * unit[u]!;
    return "";
  });
  if (text === "" || rest !== "") throw new RangeError(`headgate: '${text}' is not a duration such as 500ms, 1m or 1h30m`);
  return Math.round(sum);
}
