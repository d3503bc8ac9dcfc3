/** Who decided. */
export type Source = "server" | "lease" | "denied" | "fallback" | "backstop";

/** What one limit of a policy says. */
export interface LimitDecision {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** Milliseconds, -1 if no wait helps. */
  readonly retryAfter: number;
  readonly resetAfter: number;
  readonly delay: number;
  readonly cost: number;
  /** `enforce`, `soft` or `shadow`. */
  readonly mode: string;
  /** The status of HTTP for its verdict. */
  readonly status: number;
  /** The time in which the limit admits its capacity, in milliseconds. */
  readonly window: number;
}

/** The answer to a call. Times are milliseconds. */
export interface Decision {
  /** Whether the call may go on. Its units are charged then. */
  readonly allowed: boolean;
  /** The capacity, in units: -1 if no limit stands for the call. */
  readonly limit: number;
  /** The units that are left: -1 if no limit stands for the call. */
  readonly remaining: number;
  /** 0 if allowed, otherwise the wait after which the same call may pass: -1 if no wait helps. */
  readonly retryAfter: number;
  /** The wait until the limit is full again. */
  readonly resetAfter: number;
  /** The wait before an allowed call should go on. */
  readonly delay: number;
  readonly source: Source;
  /** Whether a failure policy answered: the client's, or the server's without a leader. */
  readonly degraded: boolean;
  /** Of a policy: the limit that stands for the call. */
  readonly name: string | null;
  /** Of a policy: why the call passes or is denied. */
  readonly reason: string | null;
  /** Of `reserve`: what the server holds. */
  readonly hold: string | null;
  /** Of a policy: what each limit says, by its name. */
  readonly limits: Readonly<Record<string, LimitDecision>>;
}

const none: Readonly<Record<string, LimitDecision>> = Object.freeze({});

/** @internal */
export function decision(
  allowed: boolean, limit: number, remaining: number, retryAfter: number, resetAfter: number, delay: number,
  source: Source, degraded = false, name: string | null = null, reason: string | null = null,
  hold: string | null = null, limits: Readonly<Record<string, LimitDecision>> = none,
): Decision {
  return { allowed, limit, remaining, retryAfter, resetAfter, delay, source, degraded, name, reason, hold, limits };
}

/** @internal A reply that has not the form of Headgate's. */
export class FormError extends Error {}

const numbers = ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"] as const;
const ofLease = [...numbers, "granted", "ttl_ms", "refill", "refill_ms", "holders"] as const;
const ofSlots = ["allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms"] as const;
const ofCheck = [...numbers, "name", "reason", "hold", "version", "applied", "limits", "soft"] as const;
const ofLimit = ["name", ...numbers, "cost", "mode", "status", "window_ms"] as const;

type Fields = Record<string, unknown>;

/**
 * fields reads a reply: values in the order of RESP2, a map of RESP3, or the names and values
 * of a map in turn, which is what ioredis makes of one.
 */
function fields(reply: unknown, names: readonly string[]): Fields {
  if (reply instanceof Map) return Object.fromEntries(reply) as Fields;
  if (Array.isArray(reply)) {
    const of: Fields = {};
    if (reply.length >= 2 * names.length && reply[0] === names[0] && reply[2] === names[1]) {
      for (let i = 0; i + 1 < reply.length; i += 2) of[String(reply[i])] = reply[i + 1];
      return of;
    }
    if (reply.length < names.length) {
      throw new FormError(`the reply has ${reply.length} values, ${names.length} are needed: is the server Headgate?`);
    }
    names.forEach((name, i) => (of[name] = reply[i]));
    return of;
  }
  if (typeof reply === "object" && reply !== null) return reply as Fields;
  throw new FormError(`the reply is ${reply === null ? "null" : typeof reply}, not a decision: is the server Headgate?`);
}

function number(of: Fields, name: string): number {
  const v = of[name];
  // A client can be set to return large integers as texts.
  const n = typeof v === "number" ? v : typeof v === "bigint" || (typeof v === "string" && v !== "") ? Number(v) : NaN;
  if (Number.isNaN(n)) throw new FormError(`${name} of the reply is not an integer: is the server Headgate?`);
  return n;
}

function text(of: Fields, name: string): string | null {
  const v = of[name];
  if (v === null || v === undefined) return null;
  if (typeof v === "string") return v;
  if (Buffer.isBuffer(v)) return v.toString();
  throw new FormError(`${name} of the reply is not a text: is the server Headgate?`);
}

const wait = (ms: number): number => (ms < 0 ? -1 : ms);

function six(of: Fields): [boolean, number, number, number, number, number] {
  return [number(of, "allowed") !== 0, number(of, "limit"), number(of, "remaining"), wait(number(of, "retry_after_ms")),
    number(of, "reset_after_ms"), number(of, "delay_ms")];
}

/** @internal The reply to RL.LIMIT. */
export function limitReply(reply: unknown): Decision {
  const of = fields(reply, numbers);
  return decision(...six(of), "server", of.degraded === true || of.degraded === 1);
}

/** @internal The reply to RL.CHECK, RL.RESERVE, RL.COMMIT and RL.CANCEL. */
export function checkReply(reply: unknown): Decision {
  const of = fields(reply, ofCheck);
  const limits: Record<string, LimitDecision> = Object.create(null) as Record<string, LimitDecision>;
  if (!Array.isArray(of.limits)) throw new FormError("limits of the reply is not an array: is the server Headgate?");
  for (const l of of.limits) {
    const f = fields(l, ofLimit);
    const [allowed, limit, remaining, retryAfter, resetAfter, delay] = six(f);
    limits[text(f, "name") ?? ""] = {
      allowed, limit, remaining, retryAfter, resetAfter, delay, cost: number(f, "cost"), mode: text(f, "mode") ?? "",
      status: number(f, "status"), window: number(f, "window_ms"),
    };
  }
  return decision(...six(of), "server", of.degraded === true || of.degraded === 1, text(of, "name"), text(of, "reason"),
    text(of, "hold"), limits);
}

/** @internal The reply to RL.ACQUIRE, and the id of the holder. */
export function slotsReply(reply: unknown): { decision: Decision; id: string | null } {
  const of = fields(reply, ofSlots);
  const d = decision(number(of, "allowed") !== 0, number(of, "limit"), number(of, "remaining"),
    wait(number(of, "retry_after_ms")), 0, 0, "server", of.degraded === true || of.degraded === 1);
  return { decision: d, id: text(of, "id") };
}

/** @internal The reply to RL.LEASE. Times are milliseconds. */
export interface Grant {
  decision: Decision;
  granted: number;
  ttl: number;
  refill: number;
  refillFor: number;
  holders: number;
}

/** @internal */
export function grantReply(reply: unknown): Grant {
  const of = fields(reply, ofLease);
  return {
    decision: decision(...six(of), "server", of.degraded === true || of.degraded === 1), granted: number(of, "granted"),
    ttl: number(of, "ttl_ms"), refill: number(of, "refill"), refillFor: number(of, "refill_ms"), holders: number(of, "holders"),
  };
}

/** @internal The reply to PING and others of one value. */
export function plainReply(reply: unknown): unknown {
  return Buffer.isBuffer(reply) ? reply.toString() : reply;
}

/** @internal The reply to RL.RESET, RL.RELEASE and RL.RETURN. */
export function countReply(reply: unknown): number {
  return number({ count: reply }, "count");
}
