// The scenarios that every SDK runs: clients/conformance.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Headgate, Limit, Policy, type Algorithm, type Decision, type OnFailure, type Reservation, type Slot } from "../dist/esm/index.js";
import { Clock, Script, settle, type Expectation } from "./virtual.js";

interface LimitJson { units: number; period_ms: number; algorithm?: Algorithm; burst?: number; on_failure?: OnFailure; leased?: boolean }
interface Call {
  verb: string; key: string; limit: LimitJson; cost?: number; id?: string; at_most_ms: number;
  limits: { key: string; limit: LimitJson; cost?: number }[];
  policy: { name: string; limit?: LimitJson; on_failure?: OnFailure }; attributes: Record<string, string>;
  ttl_ms: number; slots: number; as: string; of: string; on_failure?: OnFailure;
}
interface Step { at_ms: number; call?: Call; server?: Expectation[]; want?: Record<string, unknown>; want_error?: boolean; state?: string }
interface Scenario { name: string; options: { timeout_ms: number; processes: number; leases: boolean }; steps: Step[] }

const names: Record<string, string> = { retry_after_ms: "retryAfter", reset_after_ms: "resetAfter", delay_ms: "delay", window_ms: "window" };

const limitOf = (l: LimitJson): Limit => new Limit(l.units, l.period_ms, {
  ...(l.algorithm && { algorithm: l.algorithm }), ...(l.burst !== undefined && { burst: l.burst }),
  ...(l.on_failure && { onFailure: l.on_failure }), ...(l.leased !== undefined && { leased: l.leased }),
});

/** Holds and slots by the names that a scenario gives them. */
type Named = Map<string, Reservation | Slot>;

async function run(h: Headgate, c: Call, named: Named): Promise<Decision | undefined> {
  const policy = c.policy && new Policy(c.policy.name, {
    ...(c.policy.on_failure && { onFailure: c.policy.on_failure }), ...(c.policy.limit && { limit: limitOf(c.policy.limit) }),
  });
  const check = { ...(c.cost !== undefined && { cost: c.cost }), ...(c.id !== undefined && { id: c.id }) };
  switch (c.verb) {
    case "allow": return h.allow(c.key, limitOf(c.limit), c.cost);
    case "peek": return h.peek(c.key, limitOf(c.limit), c.cost);
    case "wait": return h.wait(c.key, limitOf(c.limit), c.cost, c.at_most_ms);
    case "refund": return h.refund(c.key, limitOf(c.limit), c.cost!);
    case "all": return h.all(c.limits.map((l) => ({ ...l, limit: limitOf(l.limit) })));
    case "check": return h.check(policy, c.attributes, check);
    case "reserve": {
      const r = await h.reserve(policy, c.attributes, { ...check, ttl: c.ttl_ms });
      named.set(c.as, r);
      return r.decision;
    }
    case "commit": return (named.get(c.of) as Reservation).commit(c.cost);
    case "cancel": return (named.get(c.of) as Reservation).cancel();
    case "acquire": {
      const s = await h.acquire(c.key, c.slots, c.ttl_ms, { ...(c.on_failure && { onFailure: c.on_failure }) });
      named.set(c.as, s);
      return s.decision;
    }
    case "release": await (named.get(c.of) as Slot).release(); return undefined;
    case "reset": await h.reset(c.key); return undefined;
    case "close": await h.close(); return undefined;
  }
  throw new Error(`the runner does not know ${c.verb}`);
}

function compare(got: unknown, want: unknown, where: string): void {
  if (typeof want !== "object" || want === null) return assert.equal(got, want, where);
  for (const [name, v] of Object.entries(want)) {
    compare((got as Record<string, unknown>)[names[name] ?? name], v, `${where}.${name}`);
  }
}

for (const file of ["core.json", "leases.json"]) {
  const path = new URL(`../../conformance/${file}`, import.meta.url);
  if (file === "leases.json" && !existsSync(path)) continue;
  for (const s of JSON.parse(readFileSync(path, "utf8")) as Scenario[]) {
    test(`${file}: ${s.name}`, async () => {
      const clock = new Clock();
      const server = new Script();
      const h = new Headgate(server, {
        timeout: s.options.timeout_ms, runtime: clock, log: () => {}, ...(s.options.processes && { processes: s.options.processes }),
        ...(!s.options.leases && { maxLeases: 0 }),
      });
      const named: Named = new Map();
      const finish = (where: string): void => {
        assert.deepEqual(server.wrong, [], where);
        assert.deepEqual(server.expected, [], `${where}: not sent`);
      };
      let where = "the start";
      for (const [i, step] of s.steps.entries()) {
        await clock.advance(step.at_ms, false);
        finish(where);
        where = `step ${i} at ${step.at_ms} ms`;
        server.expected = [...(step.server ?? [])];
        await clock.advance(step.at_ms, true);
        if (step.call) {
          let got: { value: Decision | undefined } | { error: unknown } | undefined;
          void run(h, step.call, named).then((value) => (got = { value }), (error: unknown) => (got = { error }));
          await settle();
          while (!got && (await clock.step())) ;
          assert.ok(got, `${where}: the call does not end`);
          if (step.want_error) assert.ok("error" in got, `${where}: no error`);
          else if ("error" in got) throw got.error;
          else if (step.want) compare(got.value, step.want, where);
        }
        await settle();
        if (step.state) assert.equal(h.state, step.state, where);
      }
      finish(where);
    });
  }
}
