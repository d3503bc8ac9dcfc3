import type { IncomingMessage, ServerResponse } from "node:http";
import type { Headgate } from "./client.js";
import type { Decision } from "./decision.js";
import { guard, type GuardOptions } from "./guard.js";

/** A request of Express. The decision is in `rateLimit` of `res.locals`. */
export type ExpressRequest = IncomingMessage & { ip?: string | undefined; app?: { get(name: string): unknown } };
type ExpressResponse = ServerResponse & { locals?: Record<string, unknown> };

export type { GuardOptions };

/**
 * Middleware of Express, or of a plain server of node:http. It knows the proxies that `trust proxy` of the
 * application names. Errors, such as X-Forwarded-For of a proxy that nobody named, go to `next`.
 */
export function rateLimit<R extends ExpressRequest = ExpressRequest>(headgate: Headgate, options: GuardOptions<R>) {
  const ask = guard(headgate, options);
  return (req: R, res: ExpressResponse, next: (error?: unknown) => void): void => {
    const known = !options.trustedProxies && Boolean(req.app?.get("trust proxy"));
    const forwarded = req.headers["x-forwarded-for"];
    ask(req, {
      address: known ? req.ip : req.socket.remoteAddress,
      forwarded: known ? undefined : Array.isArray(forwarded) ? forwarded.join(",") : forwarded,
    }).then((v) => {
      for (const [name, value] of v.headers) res.setHeader(name, value);
      if (res.locals) res.locals.rateLimit = v.decision satisfies Decision;
      if (!v.problem) return next();
      res.statusCode = v.problem.status;
      res.setHeader("Content-Type", "application/problem+json");
      res.end(JSON.stringify(v.problem));
    }).catch(next);
  };
}
