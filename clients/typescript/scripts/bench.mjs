// Measures decisions that are made in the process, and what middleware costs: node scripts/bench.mjs
import { Headgate, NotSentError, perSecond } from "../dist/esm/index.js";
import { guard } from "../dist/esm/guard.js";

const big = 1_000_000_000;
const granting = {
  send: async (args) => args[0] === "RL.RETURN" ? 0 : args[0] === "RL.LEASE" ? [1, big, big, 0, 0, 0, 100_000_000, 60_000, 0, 0, 1] : [1, big, big, 0, 0, 0],
};
const away = { send: async () => { throw new NotSentError("away"); } };
const limit = perSecond(big);

/** Times each of n calls, and prints the median and the 99th percentile in nanoseconds. */
async function measure(name, n, f) {
  for (let i = 0; i < 20_000; i++) await f(i);
  const took = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const began = process.hrtime.bigint();
    const p = f(i);
    if (p instanceof Promise) await p;
    took[i] = Number(process.hrtime.bigint() - began);
  }
  took.sort();
  console.log(`${name.padEnd(52)} p50 ${String(took[n >> 1]).padStart(6)} ns   p99 ${String(took[Math.floor(n * 0.99)]).padStart(6)} ns`);
}

const n = 300_000;
await measure("the clock alone", n, () => {});

const hot = new Headgate(granting, { leaseTtl: "60s" });
for (let i = 0; i < 50; i++) await hot.allow("k", limit);
await measure("tryAllow under lease, one key", n, () => hot.tryAllow("k", limit).allowed || process.exit(1));
await measure("allow under lease, one key", n, () => hot.allow("k", limit));

const many = new Headgate(granting, { leaseTtl: "60s" });
const keys = Array.from({ length: 10_000 }, (_, i) => `user:${i}`);
for (const k of keys) for (let i = 0; i < 15; i++) await many.allow(k, limit);
await measure("tryAllow under lease, 10,000 keys", n, (i) => many.tryAllow(keys[(i * 7919) % 10_000], limit));

const open = new Headgate(away, { log: () => {}, maxLeases: 0 });
for (let i = 0; i < 6; i++) await open.allow("k", limit);
await measure("tryAllow while the breaker is open, one key", n, () => open.tryAllow("k", limit));
await measure("tryAllow while the breaker is open, 10,000 keys", n, (i) => open.tryAllow(keys[(i * 7919) % 10_000], limit));
await measure("allow while the breaker is open, one key", n, () => open.allow("k", limit));

const ask = guard(hot, { limit, key: () => "m" });
for (let i = 0; i < 50; i++) await ask({}, {});
await measure("middleware with a lease: the decision and its fields", n, () => ask({}, { address: "192.0.2.1" }));
