import type { Headgate } from "./client.js";
import { HeadgateError } from "./errors.js";
import { guard, type GuardOptions } from "./guard.js";

/** The part of a context of Hono that is used. */
export interface HonoContext {
  req: { header(name: string): string | undefined };
  env: unknown;
  header(name: string, value: string): void;
  body(text: string, status: any, headers: Record<string, string>): Response;
  set(name: string, value: unknown): void;
}

/**
 * Middleware of Hono. On Node it knows the address of the connection; elsewhere it needs `key` or `attributes`.
 * The decision is in `c.get("rateLimit")`.
 */
export function rateLimit<C extends HonoContext = any>(headgate: Headgate, options: GuardOptions<C>) {
  const ask = guard(headgate, options);
  return async (c: C, next: () => Promise<void>): Promise<Response | void> => {
    const env = c.env as { incoming?: { socket?: { remoteAddress?: string } } } | undefined;
    const address = env?.incoming?.socket?.remoteAddress;
    if (address === undefined && !options.key && !options.attributes) {
      throw new HeadgateError("CONFIG", "headgate: the address of the client is not known here: set key");
    }
    const v = await ask(c, { address, forwarded: c.req.header("x-forwarded-for") });
    c.set("rateLimit", v.decision);
    if (v.problem) {
      return c.body(JSON.stringify(v.problem), v.problem.status, {
        ...Object.fromEntries(v.headers), "Content-Type": "application/problem+json",
      });
    }
    await next();
    for (const [name, value] of v.headers) c.header(name, value);
  };
}
