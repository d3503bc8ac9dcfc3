import { HeadgateError } from "./errors.js";
import { system, type Runtime } from "./runtime.js";

export interface FetchOptions {
  /** The longest wait before a request, in milliseconds: 60,000 by default. A longer one is an error. */
  atMost?: number;
  /** What sends: the global fetch by default. */
  fetch?: typeof fetch;
  /** @internal */
  runtime?: Runtime;
}

interface Origin {
  /** When the next request may go. */
  next: number;
  /** The time between two requests, 0 while there is plenty. */
  every: number;
}

/**
 * Returns a fetch that spaces its requests, by host, before the other side has to deny them. It goes by the fields
 * RateLimit, RateLimit-Policy, X-RateLimit-* and Retry-After of the answers. It never sends a request again.
 */
export function spacedFetch(options: FetchOptions = {}): typeof fetch {
  const runtime = options.runtime ?? system;
  const atMost = options.atMost ?? 60_000;
  const send = options.fetch ?? fetch;
  const origins = new Map<string, Origin>();
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    let o = origins.get(url.origin);
    if (!o) {
      if (origins.size >= 1000) origins.clear();
      origins.set(url.origin, (o = { next: 0, every: 0 }));
    }
    const now = runtime.now();
    const at = Math.max(now, o.next);
    if (at - now > atMost) {
      throw new HeadgateError("WAIT", `headgate: ${url.host} wants no request for ${Math.ceil((at - now) / 1000)} s, which is more than atMost`);
    }
    o.next = at + o.every * (1 + 0.1 * runtime.random());
    if (at > now) await pause(runtime, at - now, signal);
    const answer = await send(input, init);
    learn(o, answer, runtime);
    return answer;
  };
}

/** learn adapts the space between requests to an answer. */
function learn(o: Origin, answer: Response, runtime: Runtime): void {
  const now = runtime.now();
  const { left, quota, every, reset } = fields(answer.headers, runtime.date());
  o.every = 0;
  // From half of the quota on, requests go at the rate that the limit refills, or that lasts until it is new.
  if (left !== undefined && (quota === undefined ? left <= 10 : left <= quota / 2)) {
    if (every !== undefined) o.every = every;
    else if (reset !== undefined) o.every = reset / Math.max(left, 1);
    if (left === 0) o.next = Math.max(o.next, now + o.every * (1 + 0.1 * runtime.random()));
    else o.next = Math.max(o.next, now);
  }
  const wait = answer.headers.get("retry-after");
  if ((answer.status === 429 || answer.status === 503) && wait) {
    const ms = /^\d+$/.test(wait) ? Number(wait) * 1000 : Date.parse(wait) - runtime.date();
    if (ms > 0) o.next = Math.max(o.next, now + ms * (1 + 0.1 * runtime.random()));
  }
}

interface Fields {
  left?: number;
  quota?: number;
  /** Milliseconds in which one unit comes back. */
  every?: number;
  /** Milliseconds until the limit is new. */
  reset?: number;
}

function fields(h: Headers, date: number): Fields {
  const of: Fields = {};
  const put = (name: keyof Fields, v: number): void => {
    if (Number.isFinite(v) && v >= 0) of[name] = v;
  };
  const param = (text: string | null, name: string): number => Number(new RegExp(`;\\s*${name}=(\\d+)`).exec(text?.split(",")[0] ?? "")?.[1] ?? NaN);
  put("left", param(h.get("ratelimit"), "r"));
  put("reset", param(h.get("ratelimit"), "t") * 1000);
  const policy = h.get("ratelimit-policy");
  put("quota", param(policy, "q"));
  put("every", (param(policy, "w") * 1000) / param(policy, "q"));
  for (const prefix of ["x-ratelimit-", "ratelimit-"]) {
    const number = (name: string): number => Number(h.get(prefix + name) ?? NaN);
    if (of.left === undefined) put("left", number("remaining"));
    if (of.quota === undefined) put("quota", number("limit"));
    const reset = number("reset");
    // Some give the time, others the wait, both in seconds.
    if (of.reset === undefined) put("reset", reset > 1e9 ? Math.max(reset * 1000 - date, 0) : reset * 1000);
  }
  return of;
}

function pause(runtime: Runtime, ms: number, signal: AbortSignal | null | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      cancel();
      reject(signal!.reason as Error);
    };
    const cancel = runtime.timer(ms, () => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, false);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
