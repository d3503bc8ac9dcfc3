import { addressKey, Clients } from "./address.js";
import { Backstop } from "./backstop.js";
import type { Attributes, Headgate } from "./client.js";
import type { Decision } from "./decision.js";
import { HeadgateError } from "./errors.js";
import { headers, problem, type Problem } from "./headers.js";
import { Limit, Policy } from "./limit.js";

/** What middleware does with a request of type R. */
export interface GuardOptions<R> {
  /** The limit, or the policy of the server. */
  limit: Limit | Policy;
  /** Who the limit counts: the address of the client by default. For a policy use `attributes`. */
  key?: (request: R) => string | Promise<string>;
  /** Of a policy: what it knows of the request. By default `ip` is the address of the client. */
  attributes?: (request: R) => Attributes | Promise<Attributes>;
  /** The units of a request: 1 by default. */
  cost?: number | ((request: R) => number | Promise<number>);
  /** The name of the limit in header fields and keys: `default` by default. Limits that differ need names that differ. */
  name?: string;
  /** The addresses and networks of proxies whose X-Forwarded-For is believed. An empty list says that there are none. */
  trustedProxies?: readonly string[];
  /** A bucket per address in the process, in front of everything: ten times the limit. */
  backstop?: boolean | Limit;
  /** The most that Retry-After says, in seconds. */
  maxRetryAfter?: number;
}

/** What the middleware of a framework knows of a request. */
export interface Seen {
  /** The address of the connection, or of the client if the framework knows the proxies. */
  address: string | undefined;
  /** X-Forwarded-For, unless the framework knows the proxies. */
  forwarded: string | undefined;
}

/** What becomes of a request. `problem` is there if it is denied. */
export interface Verdict {
  decision: Decision;
  headers: [string, string][];
  problem: Problem | undefined;
}

/** guard returns what middleware asks for each request. */
export function guard<R>(headgate: Headgate, o: GuardOptions<R>): (request: R, seen: Seen) => Promise<Verdict> {
  const clients = new Clients(o.trustedProxies);
  const stands = o.limit instanceof Policy ? o.limit.limit : o.limit;
  const backstopped = o.backstop instanceof Limit ? o.backstop : o.backstop ? stands : undefined;
  if (o.backstop && !backstopped) throw new HeadgateError("CONFIG", "headgate: backstop needs a limit");
  if (o.limit instanceof Policy && o.key) throw new HeadgateError("CONFIG", "headgate: a policy has attributes, not a key");
  const backstop = backstopped && new Backstop(backstopped);
  const name = o.name ?? "default";
  return async (request, seen) => {
    const address = (): string => addressKey(clients.of(seen.address, seen.forwarded));
    let d = backstop?.check(address());
    if (!d) {
      const cost = typeof o.cost === "function" ? await o.cost(request) : (o.cost ?? 1);
      if (o.limit instanceof Policy) {
        const attributes = o.attributes ? await o.attributes(request) : { ip: address() };
        d = await headgate.despite(headgate.check(o.limit, attributes, { cost }));
      } else {
        const key = `${name}:${o.key ? await o.key(request) : address()}`;
        d = (cost > 0 ? headgate.tryAllow(key, o.limit, cost) : undefined) ?? (await headgate.despite(headgate.allow(key, o.limit, cost)));
      }
    }
    return {
      decision: d,
      headers: headers(d, { limit: d.source === "backstop" ? undefined : stands, name: o.name, maxRetryAfter: o.maxRetryAfter }),
      problem: d.allowed ? undefined : problem(d),
    };
  };
}
