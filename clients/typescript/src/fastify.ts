import type { Headgate } from "./client.js";
import type { Decision } from "./decision.js";
import { guard, type GuardOptions } from "./guard.js";

/** The part of a request of Fastify that is used. */
export interface FastifyRequest {
  ip: string;
  /** Only with `trustProxy`. */
  ips?: string[] | undefined;
  headers: Record<string, string | string[] | undefined>;
  socket: { remoteAddress?: string | undefined };
}
interface FastifyReply {
  header(name: string, value: string): unknown;
  code(status: number): unknown;
  send(body: unknown): unknown;
}
interface FastifyInstance {
  decorateRequest(name: string, value: null): unknown;
  addHook(name: "onRequest", f: (request: any, reply: any) => Promise<unknown>): unknown;
}

export interface PluginOptions extends GuardOptions<any> {
  headgate: Headgate;
}

/**
 * A plugin of Fastify, for all routes of the instance that registers it. It knows the proxies that `trustProxy`
 * of the instance names. The decision is in `request.rateLimit`.
 */
export function rateLimit(fastify: FastifyInstance, options: PluginOptions, done: (error?: Error) => void): void {
  const ask = guard<FastifyRequest>(options.headgate, options);
  fastify.decorateRequest("rateLimit", null);
  fastify.addHook("onRequest", async (request: FastifyRequest & { rateLimit: Decision }, reply: FastifyReply) => {
    const known = !options.trustedProxies && request.ips !== undefined;
    const forwarded = request.headers["x-forwarded-for"];
    const v = await ask(request, {
      address: known ? request.ip : request.socket.remoteAddress,
      forwarded: known ? undefined : Array.isArray(forwarded) ? forwarded.join(",") : forwarded,
    });
    for (const [name, value] of v.headers) reply.header(name, value);
    request.rateLimit = v.decision;
    if (!v.problem) return;
    reply.code(v.problem.status);
    reply.header("Content-Type", "application/problem+json");
    reply.send(JSON.stringify(v.problem));
    return reply;
  });
  done();
}
// The hook is for the instance that registers the plugin, not for a child of it.
Object.assign(rateLimit, { [Symbol.for("skip-override")]: true, [Symbol.for("fastify.display-name")]: "headgate" });
