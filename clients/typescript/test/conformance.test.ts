// The scenarios that every SDK runs: clients/conformance.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Headgate, Limit, Policy, ServerError, type Algorithm, type Decision, type OnFailure, type Reservation, type Slot } from "../dist/esm/index.js";
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

const read = (file: string): unknown => JSON.parse(readFileSync(new URL(`../../conformance/${file}`, import.meta.url), "utf8"));

{
  for (const s of read("core.json") as Scenario[]) {
    test(`core.json: ${s.name}`, async () => {
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

interface Trace {
  name: string; options: { timeout_ms: number; lease_ttl_ms: number }; limit: LimitJson; close_ms: number;
  calls: [number, number, number, boolean, string, number, number][];
  server: [number, string[], number | null, unknown][];
}

for (const t of read("leases.json") as Trace[]) {
  test(`leases.json: ${t.name}`, async () => {
    const clock = new Clock();
    const ids = new Map<string, string>();
    const wrong: string[] = [];
    const expected = [...t.server];
    const matches = (want: string, got: string): boolean => {
      if (!want.startsWith("*")) return want === got;
      if (!ids.has(want) && ![...ids.values()].includes(got)) ids.set(want, got);
      return ids.get(want) === got;
    };
    const h = new Headgate({
      send(args) {
        // What different callers send at one moment has no order.
        const now = expected.filter(([at]) => at === clock.now());
        const e = now.find(([, command]) => command.length === args.length && command.every((a, i) => a.startsWith("*") || a === args[i]) &&
          command.every((a, i) => matches(a, args[i]!)));
        if (!e) wrong.push(`sent at ${clock.now()}: ${args.join(" ")}, expected ${JSON.stringify(now.length ? now : expected[0])}`);
        else expected.splice(expected.indexOf(e), 1);
        const [, , delay, reply] = e ?? [-1, [], null, undefined];
        return new Promise((resolve, reject) => {
          if (delay === null) return;
          const { error } = (reply ?? {}) as { error?: string };
          clock.timer(delay, () => (error ? reject(new ServerError(error)) : resolve(reply)));
        });
      },
    }, { timeout: t.options.timeout_ms, leaseTtl: t.options.lease_ttl_ms, runtime: clock, log: () => {} });
    const got: unknown[][] = [];
    for (const [i, [at, cost]] of t.calls.entries()) {
      await clock.advance(at, true);
      void h.allow("k", limitOf(t.limit), cost).then((d) => (got[i] = [at, cost, clock.now(), d.allowed, d.source, d.remaining, d.retryAfter]),
        (e: unknown) => wrong.push(`call ${i}: ${String(e)}`));
      await settle();
      assert.deepEqual(wrong, [], `call ${i}`);
    }
    await clock.advance(t.close_ms, true);
    void h.close();
    await settle();
    while (await clock.step()) ;
    assert.deepEqual(wrong, []);
    assert.deepEqual(expected, [], "not sent");
    assert.deepEqual(got, t.calls);
  });
}
