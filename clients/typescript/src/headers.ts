import type { Decision } from "./decision.js";
import type { Limit } from "./limit.js";
import { unavailable } from "./client.js";

export interface HeaderOptions {
  /** The limit of the call, or the one that stands for its policy. */
  limit?: Limit | undefined;
  /** The name of the limit: `default` if neither this nor the policy says one. */
  name?: string | undefined;
  /** The most that Retry-After says, in seconds. */
  maxRetryAfter?: number | undefined;
  /** Milliseconds since 1970: now by default. */
  date?: number;
}

/** The header fields of an answer, in the order in which they are written. */
export function headers(d: Decision, o: HeaderOptions = {}): [string, string][] {
  const of: [string, string][] = [];
  if (d.limit >= 0) {
    const name = `"${(d.name ?? o.name ?? "default").replace(/["\\]/g, "\\$&").replace(/[^\x20-\x7e]/g, "_")}"`;
    const wait = d.allowed ? d.resetAfter : d.retryAfter;
    const window = d.name === null ? o.limit?.window : d.limits[d.name]?.window;
    of.push(["RateLimit", `${name};r=${d.remaining}${wait >= 0 ? `;t=${seconds(wait)}` : ""}`]);
    of.push(["RateLimit-Policy", `${name};q=${d.limit}${window && window % 1000 === 0 ? `;w=${window / 1000}` : ""}`]);
    of.push(["X-RateLimit-Limit", String(d.limit)]);
    of.push(["X-RateLimit-Remaining", String(Math.max(d.remaining, 0))]);
    of.push(["X-RateLimit-Reset", String(Math.ceil(((o.date ?? Date.now()) + d.resetAfter) / 1000))]);
  }
  if (!d.allowed && d.retryAfter >= 0) of.push(["Retry-After", String(Math.min(seconds(d.retryAfter), o.maxRetryAfter ?? Infinity))]);
  return of;
}

/** The answer to a denied call: a problem of RFC 9457. */
export interface Problem {
  type: "about:blank";
  title: string;
  status: number;
  retry_after_ms?: number;
}

/** The status and the body of a denial. */
export function problem(d: Decision): Problem {
  const status = unavailable(d) ? 503 : 429;
  return {
    type: "about:blank", title: status === 503 ? "Service Unavailable" : "Too Many Requests", status,
    ...(d.retryAfter >= 0 && { retry_after_ms: Math.ceil(d.retryAfter) }),
  };
}

const seconds = (ms: number): number => Math.max(Math.ceil(ms / 1000), 0);
