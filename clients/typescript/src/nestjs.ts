import { HttpException, type CanActivate, type ExecutionContext } from "@nestjs/common";
import type { Headgate } from "./client.js";
import { guard, type GuardOptions } from "./guard.js";
import type { ExpressRequest } from "./express.js";

type Request = ExpressRequest & { ips?: string[] | undefined; rateLimit?: unknown };
interface Response {
  setHeader?(name: string, value: string): unknown;
  header?(name: string, value: string): unknown;
}

/** A guard of NestJS, over Express or Fastify. The decision is in `rateLimit` of the request. */
export class HeadgateGuard implements CanActivate {
  readonly #ask;
  readonly #named: boolean;

  constructor(headgate: Headgate, options: GuardOptions<any>) {
    this.#ask = guard<Request>(headgate, options);
    this.#named = Boolean(options.trustedProxies);
  }

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const req = context.switchToHttp().getRequest<Request>();
    const res = context.switchToHttp().getResponse<Response>();
    // Express says whether it trusts proxies, Fastify has `ips` then.
    const known = !this.#named && (req.app ? Boolean(req.app.get("trust proxy")) : req.ips !== undefined);
    const forwarded = req.headers["x-forwarded-for"];
    const v = await this.#ask(req, {
      address: known ? req.ip : req.socket.remoteAddress,
      forwarded: known ? undefined : Array.isArray(forwarded) ? forwarded.join(",") : forwarded,
    });
    const set = (name: string, value: string): void => void (res.setHeader ? res.setHeader(name, value) : res.header?.(name, value));
    for (const [name, value] of v.headers) set(name, value);
    req.rateLimit = v.decision;
    if (!v.problem) return true;
    set("Content-Type", "application/problem+json");
    throw new HttpException(v.problem, v.problem.status);
  }
}
