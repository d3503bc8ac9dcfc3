import type { Headgate } from "./client.js";
import { HeadgateError } from "./errors.js";
import { Counter, type Hits } from "./hits.js";

type Callback = (error: Error | null, result?: { current: number; ttl: number }) => void;

/** Returns a `store` of @fastify/rate-limit. `prefix` stands before each key. */
export function fastifyStore(headgate: Headgate, prefix = "fastify-rate-limit:") {
  const counter = new Counter(headgate);
  return class HeadgateStore {
    prefix = prefix;

    constructor(options: object) {
      const o = options as { continueExceeding?: boolean; exponentialBackoff?: boolean };
      if (o.continueExceeding || o.exponentialBackoff) {
        throw new HeadgateError("CONFIG", "headgate: continueExceeding and exponentialBackoff are not supported: use a penalty of a policy");
      }
    }

    incr(key: string, callback: Callback, timeWindow: number, _max: number): void {
      answer(counter.hit(this.prefix + key, timeWindow), callback);
    }

    read(key: string, callback: Callback, timeWindow: number): void {
      answer(counter.get(this.prefix + key, timeWindow), callback);
    }

    child(route: object): HeadgateStore {
      const child = new HeadgateStore(route);
      const { method = "", url = "" } = (route as { routeInfo?: { method?: string; url?: string } }).routeInfo ?? {};
      child.prefix = `${this.prefix}${method}${url}:`;
      return child;
    }
  };
}

function answer(of: Promise<Hits>, callback: Callback): void {
  of.then(({ hits, resetAfter }) => callback(null, { current: hits, ttl: resetAfter }), (e: Error) => callback(e));
}
