// What the libraries that take stores demand of them: the tests of @fastify/rate-limit, from its package;
// for the others, whose packages have no tests, the contract of their types and documents, which their own
// stores keep too.
import { ThrottlerStorageService } from "@nestjs/throttler";
import { MemoryStore } from "express-rate-limit";
import { MemoryStore as HonoMemoryStore } from "hono-rate-limiter";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Headgate } from "../dist/esm/index.js";
import { connect } from "../dist/esm/ioredis.js";
import { HeadgateThrottlerStorage } from "../dist/esm/nestjs-throttler.js";
import { HeadgateStore } from "../dist/esm/store.js";
import { patient, ready, Server, sleep } from "./server.js";

let server: Server;
let h: Headgate;
before(async () => {
  server = await Server.start();
  h = await ready(connect(server.url, { ...patient, log: () => {} }));
});
after(async () => {
  await h.close();
  await server.kill();
});

/** The tests that the adapter fails: it answers without the server, and has neither continueExceeding nor exponentialBackoff. */
const otherwise = [
  "Skip on redis error", "Throw on redis error", "When continue exceeding is on (Redis)",
  "Redis with continueExceeding should not always return the timeWindow as ttl", "With redis store and exponential backoff",
  "With { increment: false } it throws on redis error", "Throw on redis error", "Skip on redis error", "When continue exceeding is on (Redis)",
  "When continue exceeding is off under route (Redis)", "Route-specific exponential backoff with redis store",
];

test("@fastify/rate-limit: its tests of an external store", { skip: !process.env.LONG }, async () => {
  const path = (p: string): string => fileURLToPath(new URL(p, import.meta.url));
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const p = spawn(process.execPath, [
    "--test", "--test-reporter=tap", "--test-force-exit", "--require", path("adopted.cjs"),
    path("../node_modules/@fastify/rate-limit/test/redis-rate-limit.test.js"),
  ], { env: { ...env, ADOPTED_PORT: String(server.port) } });
  let out = "";
  p.stdout.on("data", (d) => (out += d));
  p.stderr.on("data", (d) => (out += d));
  await new Promise((r) => p.on("exit", r));
  const ends = (how: string): string[] => [...out.matchAll(new RegExp(`^ {4}${how} \\d+ - (.*)$`, "gm"))].map((m) => m[1]!);
  assert.deepEqual(ends("not ok"), otherwise, out);
  assert.deepEqual(ends("ok"), [
    "With redis store", "With redis store (ban)", "When use a custom nameSpace", "With { increment: false } it reads the state without consuming it",
    "With redis store",
  ], out);
});

interface Store {
  init?(options: never): unknown;
  increment(key: string): Promise<{ totalHits: number; resetTime: Date | undefined }> | { totalHits: number; resetTime: Date | undefined };
  get?(key: string): unknown;
  decrement(key: string): unknown;
  resetKey(key: string): unknown;
}

const stores: Record<string, () => Store> = {
  "express-rate-limit, its own": () => new MemoryStore(),
  "hono-rate-limiter, its own": () => new HonoMemoryStore() as unknown as Store,
  HeadgateStore: () => new HeadgateStore(h, { prefix: `adopted${Math.random()}:` }),
};

for (const [name, make] of Object.entries(stores)) {
  test(`the store of express-rate-limit and hono-rate-limiter: ${name}`, async () => {
    const window = 2000;
    const open = (windowMs: number): Store => {
      const s = make();
      s.init!({ windowMs } as never);
      return s;
    };
    const s = open(window);
    const hits = async (key: string): Promise<number> => ((await s.get!(key)) as { totalHits: number } | undefined)?.totalHits ?? 0;
    // Windows of ours begin at multiples of their length: none may end in between.
    await sleep(window + 5 - (Date.now() % window));
    assert.equal(await s.get!("a"), undefined, "a key that has no hit is not known");
    assert.equal((await s.increment("a")).totalHits, 1);
    const second = await s.increment("a");
    assert.equal(second.totalHits, 2, "the hit that is counted is among them");
    assert.ok(second.resetTime instanceof Date);
    const left = second.resetTime.getTime() - Date.now();
    assert.ok(left > 0 && left <= window, `the window ends in ${left} ms`);
    assert.equal((await s.increment("b")).totalHits, 1, "keys are apart");
    assert.equal(await hits("a"), 2);
    assert.equal(await hits("a"), 2, "get counts nothing");
    await s.decrement("a");
    assert.equal(await hits("a"), 1);
    await s.decrement("a");
    await s.decrement("a");
    await s.decrement("unknown");
    assert.equal(await hits("a"), 0, "hits never fall below 0");
    assert.equal((await s.increment("a")).totalHits, 1);
    await s.resetKey("b");
    await s.resetKey("unknown");
    assert.equal(await hits("b"), 0);
    assert.equal((await s.increment("b")).totalHits, 1);
    assert.equal(await hits("a"), 1, "resetKey is of one key");
    assert.ok(Date.now() % window < window - 200 || !(s instanceof HeadgateStore), "the machine was too slow for this test");
    await Promise.all(Array.from({ length: 20 }, () => s.increment("many")));
    assert.equal(await hits("many"), 20, "no hit is lost");
    const brief = open(100);
    await brief.increment("c");
    await brief.increment("c");
    await sleep(250);
    assert.equal((await brief.increment("c")).totalHits, 1, "hits end with their window");
    for (const each of [s, brief] as { shutdown?(): void }[]) each.shutdown?.();
  });
}

const storages = {
  "its own": () => new ThrottlerStorageService(),
  HeadgateThrottlerStorage: () => new HeadgateThrottlerStorage(h),
};

for (const [name, make] of Object.entries(storages)) {
  test(`the storage of @nestjs/throttler: ${name}`, async () => {
    const s = make();
    const key = `adopted${Math.random()}`;
    const ttl = 10_000;
    const hit = (k: string, block = ttl, limit = 2): ReturnType<ThrottlerStorageService["increment"]> => s.increment(key + k, ttl, limit, block, "t");
    const left = ttl - (Date.now() % ttl);
    if (left < 6000) await sleep(left + 5);
    for (const n of [1, 2]) {
      const r = await hit("a");
      assert.deepEqual([r.totalHits, r.isBlocked], [n, false], "as many as the limit pass");
      assert.ok(r.timeToExpire > 0 && r.timeToExpire <= ttl / 1000, "seconds until the hits end");
      assert.ok(r.timeToBlockExpire <= 0, "nothing is blocked");
    }
    const over = await hit("a");
    assert.deepEqual([over.totalHits, over.isBlocked], [3, true]);
    assert.ok(over.timeToBlockExpire > 0 && over.timeToBlockExpire <= ttl / 1000, "seconds until the block ends");
    assert.equal((await hit("a")).isBlocked, true, "a block stays");
    assert.equal((await hit("b")).isBlocked, false, "keys are apart");

    // A block that is shorter than the window ends it too.
    for (let i = 0; i < 2; i++) assert.equal((await hit("c", 1000)).isBlocked, false);
    const short = await hit("c", 1000);
    assert.deepEqual([short.isBlocked, short.timeToBlockExpire], [true, 1]);
    assert.equal((await hit("c", 1000)).isBlocked, true);
    await sleep(1100);
    const next = await hit("c", 1000);
    assert.deepEqual([next.totalHits, next.isBlocked], [1, false], "after a block the hits begin again");
    assert.equal((await hit("c", 1000)).isBlocked, false);
    assert.equal((await hit("c", 1000)).isBlocked, true);
    if (s instanceof ThrottlerStorageService) s.onApplicationShutdown();
  });
}
