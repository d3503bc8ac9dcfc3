// Measures decisions that are made in the process, and what middleware costs: node scripts/bench.mjs. With --json,
// prints a line of JSON for each row.
import { IncomingMessage, ServerResponse } from "node:http";
import { rateLimit } from "../dist/esm/express.js";
import { Headgate, NotSentError, perSecond } from "../dist/esm/index.js";

const big = 1_000_000_000;
const granting = {
  send: async (args) => args[0] === "RL.RETURN" ? 0 : args[0] === "RL.LEASE" ? [1, big, big, 0, 0, 0, 100_000_000, 60_000, 0, 0, 1] : [1, big, big, 0, 0, 0],
};
const away = { send: async () => { throw new NotSentError("away"); } };
const limit = perSecond(big);

const json = process.argv.includes("--json");

/** Prints the median and the 99th percentile of times in nanoseconds. */
function report(of, keys, name, took) {
  took.sort();
  const [p50, p99] = [took[took.length >> 1], took[Math.floor(took.length * 0.99)]];
  if (json) {
    if (of) console.log(JSON.stringify({ of, keys, p50, p99 }));
  } else console.log(`${name.padEnd(52)} p50 ${String(p50).padStart(6)} ns   p99 ${String(p99).padStart(6)} ns`);
}

/** Times each of n calls. */
async function measure(of, keys, name, n, f) {
  for (let i = 0; i < 20_000; i++) await f(i);
  const took = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const began = process.hrtime.bigint();
    const p = f(i);
    if (p instanceof Promise) await p;
    took[i] = Number(process.hrtime.bigint() - began);
  }
  report(of, keys, name, took);
}

const n = 300_000;
await measure("", 0, "the clock alone", n, () => {});

const hot = new Headgate(granting, { leaseTtl: "60s" });
for (let i = 0; i < 50; i++) await hot.allow("k", limit);
await measure("lease", 1, "tryAllow under lease, one key", n, () => hot.tryAllow("k", limit).allowed || process.exit(1));
await measure("", 1, "allow under lease, one key", n, () => hot.allow("k", limit));

const many = new Headgate(granting, { leaseTtl: "60s" });
const keys = Array.from({ length: 10_000 }, (_, i) => `user:${i}`);
for (const k of keys) for (let i = 0; i < 15; i++) await many.allow(k, limit);
await measure("lease", 10_000, "tryAllow under lease, 10,000 keys", n, (i) => many.tryAllow(keys[(i * 7919) % 10_000], limit));

const open = new Headgate(away, { log: () => {}, maxLeases: 0 });
for (let i = 0; i < 6; i++) await open.allow("k", limit);
await measure("away", 1, "tryAllow while the breaker is open, one key", n, () => open.tryAllow("k", limit));
await measure("away", 10_000, "tryAllow while the breaker is open, 10,000 keys", n, (i) => open.tryAllow(keys[(i * 7919) % 10_000], limit));
await measure("", 1, "allow while the breaker is open, one key", n, () => open.allow("k", limit));

// Middleware of Express without a network, from the request to the application: the decision and the fields.
const middleware = rateLimit(hot, { limit, key: () => "m" });
const took = new Float64Array(n);
for (let i = -20_000; i < n; i++) {
  const req = Object.assign(new IncomingMessage({ remoteAddress: "192.0.2.1" }), { method: "GET", url: "/" });
  const res = new ServerResponse(req);
  const began = process.hrtime.bigint();
  await new Promise((next) => middleware(req, res, next));
  if (i >= 0) took[i] = Number(process.hrtime.bigint() - began);
}
report("middleware", 1, "middleware of Express with a lease", took);
