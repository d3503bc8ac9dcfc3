// The libraries that take stores, with the examples of their documents.
import fastifyRateLimit from "@fastify/rate-limit";
import { serve } from "@hono/node-server";
import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { slowDown } from "express-slow-down";
import fastify from "fastify";
import { Redis } from "ioredis";
import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import assert from "node:assert/strict";
import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import "reflect-metadata";
import { fastifyStore } from "../dist/esm/fastify-rate-limit.js";
import type { Headgate } from "../dist/esm/index.js";
import { connect } from "../dist/esm/ioredis.js";
import { HeadgateThrottlerStorage } from "../dist/esm/nestjs-throttler.js";
import { HeadgateStore } from "../dist/esm/store.js";
import { request, type Answer, type App } from "./outage.js";
import { patient, ready, Server, sleep } from "./server.js";

let server: Server;
let h: Headgate;
before(async () => {
  server = await Server.start();
  h = await ready(connect(server.url, { ...patient, log: () => {}, processes: 2 }));
});
after(async () => {
  await h.close();
  await server.kill();
});

async function listen(s: HttpServer): Promise<App> {
  if (!s.listening) await new Promise((r) => s.once("listening", r));
  return {
    url: `http://127.0.0.1:${(s.address() as AddressInfo).port}/`,
    close: async () => {
      s.closeAllConnections();
      s.close();
    },
  };
}

async function times(n: number, url: string): Promise<Answer[]> {
  const of = [];
  for (let i = 0; i < n; i++) of.push(await request(url));
  return of;
}

// Windows begin at multiples of their length: a test does not run over the end of one.
async function inWindow(ms: number): Promise<void> {
  const left = ms - (Date.now() % ms);
  if (left < 3000) await sleep(left + 5);
}

const minute = 60_000;

interface Case {
  name: string;
  app: (prefix: string, limit: number) => Promise<App>;
  allowed: Record<string, string | RegExp>;
  denied: Record<string, string | RegExp>;
}

const cases: Case[] = [
  {
    name: "express-rate-limit",
    async app(prefix, limit) {
      const a = express();
      a.use(rateLimit({ windowMs: minute, limit, standardHeaders: "draft-8", legacyHeaders: true, ipv6Subnet: 56, store: new HeadgateStore(h, { prefix }) }));
      a.get("/", (_req, res) => void res.send("hello"));
      return listen(a.listen(0, "127.0.0.1"));
    },
    allowed: { ratelimit: /r=3; t=\d+/, "x-ratelimit-limit": "4", "x-ratelimit-remaining": "3" },
    denied: { ratelimit: /r=0; t=\d+/, "x-ratelimit-remaining": "0", "retry-after": /^\d+$/ },
  },
  {
    name: "hono-rate-limiter",
    async app(prefix, limit) {
      const a = new Hono();
      a.use(rateLimiter({ windowMs: minute, limit, standardHeaders: "draft-6", keyGenerator: () => "key", store: new HeadgateStore(h, { prefix }) as never }));
      a.get("/", (c) => c.text("hello"));
      return listen(serve({ fetch: a.fetch, hostname: "127.0.0.1", port: 0 }) as HttpServer);
    },
    allowed: { "ratelimit-limit": "4", "ratelimit-remaining": "3", "ratelimit-reset": /^\d+$/ },
    denied: { "ratelimit-remaining": "0", "retry-after": /^\d+$/ },
  },
  {
    name: "@fastify/rate-limit",
    async app(prefix, max) {
      const a = fastify({ forceCloseConnections: true });
      await a.register(fastifyRateLimit, { max, timeWindow: "1 minute", store: fastifyStore(h, prefix) });
      a.get("/", async () => ({ hello: "world" }));
      return { url: `${await a.listen({ host: "127.0.0.1", port: 0 })}/`, close: () => a.close() };
    },
    allowed: { "x-ratelimit-limit": "4", "x-ratelimit-remaining": "3", "x-ratelimit-reset": /^\d+$/ },
    denied: { "x-ratelimit-remaining": "0", "retry-after": /^\d+$/ },
  },
  {
    name: "@nestjs/throttler",
    async app(prefix, limit) {
      class Root {
        hello(): string {
          return "hello";
        }
      }
      Controller()(Root);
      Get()(Root.prototype, "hello", Object.getOwnPropertyDescriptor(Root.prototype, "hello")!);
      class App {}
      Module({
        imports: [ThrottlerModule.forRoot({ throttlers: [{ name: prefix, ttl: minute, limit }], storage: new HeadgateThrottlerStorage(h) })],
        controllers: [Root],
        providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
      })(App);
      const a = await NestFactory.create(App, { logger: false, forceCloseConnections: true });
      await a.listen(0, "127.0.0.1");
      return { url: `${await a.getUrl()}/`, close: () => a.close() };
    },
    allowed: { "x-ratelimit-limit-there": "4", "x-ratelimit-remaining-there": "3", "x-ratelimit-reset-there": /^\d+$/ },
    denied: { "retry-after-there": /^\d+$/ },
  },
];

const prefixOf = (c: Case): string => (c.name === "@nestjs/throttler" ? "there" : `${c.name}:`);

function has(a: Answer, want: Record<string, string | RegExp>): void {
  for (const [name, v] of Object.entries(want)) assert.match(String(a.headers[name]), v instanceof RegExp ? v : new RegExp(`^${v}$`), name);
}

for (const c of cases) {
  test(`${c.name}: header fields on allowed and denied answers`, async () => {
    await inWindow(minute);
    const a = await c.app(prefixOf(c), 4);
    const b = await c.app(prefixOf(c), 4);
    const [first, ...more] = await times(2, a.url);
    assert.equal(first!.status, 200);
    has(first!, c.allowed);
    const rest = [...more, ...(await times(3, b.url))];
    assert.deepEqual(rest.map((x) => x.status), [200, 200, 200, 429], "two processes have one limit");
    has(rest.at(-1)!, c.denied);
    await a.close();
    await b.close();
  });
}

test("express-slow-down delays what is above the limit", async () => {
  await inWindow(minute);
  const a = express();
  a.use(slowDown({ windowMs: minute, delayAfter: 2, delayMs: (hits) => hits * 50, store: new HeadgateStore(h, { prefix: "slow:" }) }));
  a.get("/", (_req, res) => void res.send("hello"));
  const s = await listen(a.listen(0, "127.0.0.1"));
  const took = (await times(4, s.url)).map((x) => x.took);
  assert.ok(took[1]! < 145 && took[2]! >= 148 && took[3]! >= 198, String(took));
  await s.close();
});

test("a store counts beyond the limit, gives back, and resets", async () => {
  await inWindow(minute);
  const store = new HeadgateStore(h, { prefix: "s:" });
  store.init({ windowMs: minute });
  assert.equal(await store.get("k"), undefined);
  for (let i = 1; i <= 3; i++) {
    const { totalHits, resetTime } = await store.increment("k");
    assert.equal(totalHits, i);
    assert.ok(resetTime.getTime() > Date.now() && resetTime.getTime() <= Date.now() + minute + 50);
  }
  await store.decrement("k");
  assert.equal((await store.get("k"))!.totalHits, 2);
  await store.resetKey("k");
  assert.equal((await store.increment("k")).totalHits, 1);
});

test("a block of the throttler outlasts its window", async () => {
  const storage = new HeadgateThrottlerStorage(h);
  await inWindow(minute);
  const hit = () => storage.increment("k", 100, 2, 60_000, "t");
  let r = await hit();
  for (let i = 0; i < 10 && !r.isBlocked; i++) r = await hit();
  assert.ok(r.isBlocked && r.timeToBlockExpire === 60, JSON.stringify(r));
  await sleep(120);
  r = await hit();
  assert.ok(r.isBlocked && r.timeToBlockExpire >= 58, JSON.stringify(r));
});

test("keys of another type take no service down", async () => {
  await inWindow(minute);
  const told: string[] = [];
  const mine = h;
  h = await ready(connect(server.url, { ...patient, log: (m) => told.push(m), processes: 2 }));
  for (const [i, c] of cases.entries()) {
    const p = c.name === "@nestjs/throttler" ? "wrong" : `wrong${i}:`;
    const a = await c.app(p, 4);
    await times(1, a.url);
    const redis = new Redis(server.url);
    const [key, ...more] = (await redis.keys("*")).filter((k) => k.includes("wrong"));
    assert.deepEqual([typeof key, more], ["string", []], c.name);
    await redis.del(key!);
    await redis.call("RL.ACQUIRE", key!, "1", "1m");
    const of = await times(4, a.url);
    assert.deepEqual(of.map((x) => x.status), [200, 200, 429, 429], c.name);
    await redis.del(key!);
    redis.disconnect();
    await a.close();
  }
  assert.equal(told.length, 1, String(told));
  const store = new HeadgateStore(h, { prefix: "refund:" });
  store.init({ windowMs: minute });
  await h.acquire("refund:k", 1, "1m");
  assert.equal((await store.increment("k")).totalHits, 2);
  await store.decrement("k");
  assert.equal((await store.increment("k")).totalHits, 2);
  await h.close();
  h = mine;
});

test("without the server each library admits a share", async () => {
  await inWindow(minute);
  const apps = [];
  for (const [i, c] of cases.entries()) apps.push({ name: c.name, app: await c.app(`gone${i}`, 4) });
  await server.kill();
  for (const { name, app } of apps) {
    const of = await times(4, app.url);
    assert.deepEqual(of.map((x) => x.status), [200, 200, 429, 429], name);
    assert.ok(Math.max(...of.map((x) => x.took - x.late)) < 150, name);
    await app.close();
  }
  await server.start();
  for (let i = 0; i < 600 && h.state === "open"; i++) await sleep(5);
  assert.equal(h.state, "closed");
  await sleep(100);
  const store = new HeadgateStore(h, { prefix: "gone0" });
  store.init({ windowMs: minute });
  assert.equal((await store.increment("127.0.0.1")).totalHits, 5, "what was admitted is charged");
});
