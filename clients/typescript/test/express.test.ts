import express from "express";
import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { rateLimit, type GuardOptions } from "../dist/esm/express.js";
import { HeadgateError, Limit, perMinute, Policy, type Decision, type Headgate, type OnFailure } from "../dist/esm/index.js";
import * as ioredis from "../dist/esm/ioredis.js";
import * as nodeRedis from "../dist/esm/node-redis.js";
import { faults, ofOutage, outage, request, type App } from "./outage.js";
import { freePort, patient, ready, Server } from "./server.js";

async function app(h: Headgate, o: GuardOptions<express.Request>, proxy?: string): Promise<App> {
  const a = express();
  if (proxy) a.set("trust proxy", proxy);
  a.use(rateLimit(h, o));
  a.get("/", (_req, res) => void res.send((res.locals.rateLimit as Decision).source));
  a.use((e: Error, _req: express.Request, res: express.Response, _next: express.NextFunction) => void res.status(500).send(e.message));
  const s = a.listen(0, "127.0.0.1");
  await new Promise((r) => s.once("listening", r));
  return {
    url: `http://127.0.0.1:${(s.address() as AddressInfo).port}/`,
    close: () => {
      s.closeAllConnections();
      return new Promise((r) => s.close(r));
    },
  };
}

const outageApp = (h: Headgate): Promise<App> => app(h, { limit: ofOutage, key: () => "me" });

for (const how of faults) {
  test(`Express and ioredis outlive ${how}`, { skip: how !== "SIGSTOP" && !process.env.LONG }, () => outage(ioredis.connect, outageApp, how));
  test(`Express and node-redis outlive ${how}`, { skip: !process.env.LONG }, () => outage(nodeRedis.connect, outageApp, how));
}

for (const [name, { connect }] of Object.entries({ ioredis, "node-redis": nodeRedis })) {
  test(`${name}: header fields of answers`, async () => {
    const server = await Server.start();
    const h = await ready(connect(server.url, patient));
    const a = await app(h, { limit: new Limit(2, "1h"), name: "api", maxRetryAfter: 60 });
    const first = await request(a.url);
    assert.equal(first.status, 200);
    assert.equal(first.body, "server");
    assert.equal(first.headers["ratelimit"], '"api";r=1;t=1800');
    assert.equal(first.headers["ratelimit-policy"], '"api";q=2;w=3600');
    assert.equal(first.headers["x-ratelimit-limit"], "2");
    assert.equal(first.headers["x-ratelimit-remaining"], "1");
    assert.ok(Math.abs(Number(first.headers["x-ratelimit-reset"]) - Date.now() / 1000 - 1800) < 5);
    assert.equal(first.headers["retry-after"], undefined);
    await request(a.url);
    for (const source of ["server", "denied"]) {
      const denied = await request(a.url);
      assert.equal(denied.status, 429, source);
      assert.equal(denied.headers["content-type"], "application/problem+json");
      assert.match(denied.headers["ratelimit"] as string, /^"api";r=0;t=(1800|1799)$/);
      assert.equal(denied.headers["retry-after"], "60");
      const { retry_after_ms, ...rest } = JSON.parse(denied.body) as Record<string, unknown>;
      assert.deepEqual(rest, { type: "about:blank", title: "Too Many Requests", status: 429 });
      assert.ok(Number(retry_after_ms) > 1_790_000 && Number(retry_after_ms) <= 1_800_000);
    }
    assert.equal(h.stats().denied, 1);
    await a.close();
    await h.close();
    await server.kill();
  });
}

test("a limiter that is configured wrongly takes no service down", async () => {
  const server = await Server.start();
  const told: [string, string][] = [];
  const h = await ready(ioredis.connect(server.url, { ...patient, maxLeases: 0, log: (...of) => told.push(of) }));
  await h.acquire("default:me", 1, "1m"); // no limit
  const limit = (onFailure: OnFailure): Limit => new Limit(10, "1h", { onFailure });
  const statuses = async (o: GuardOptions<any>): Promise<number[]> => {
    const a = await app(h, o);
    const of = [];
    for (let i = 0; i < 3; i++) of.push((await request(a.url)).status);
    await a.close();
    return of;
  };
  for (const [onFailure, want] of [["local", [200, 200, 429]], ["open", [200, 200, 200]], ["closed", [503, 503, 503]]] as const) {
    assert.deepEqual(await statuses({ limit: limit(onFailure), key: () => "me" }), want, `WRONGTYPE, ${onFailure}`);
    assert.deepEqual(await statuses({ limit: new Policy("pay", { onFailure, limit: limit(onFailure) }) }), want, `NOPOLICY, ${onFailure}`);
  }
  assert.equal(told.length, 1, "the log is told once a minute");
  assert.match(told[0]![0], /wrongly.*WRONGTYPE/);
  assert.equal(told[0]![1], "error");
  const { mistakes, failures, chargedBack } = h.stats();
  assert.deepEqual([mistakes, failures, chargedBack], [18, 0, 0]);
  await assert.rejects(h.peek("default:me", limit("closed")), (e: Error) => e instanceof HeadgateError && e.decision?.allowed === false);
  await assert.rejects(h.refund("default:me", limit("open"), 1), (e: Error) => e instanceof HeadgateError && e.decision === undefined);
  // What the server has no part in is an error.
  const mine = await app(h, { limit: perMinute(5), cost: () => -1 });
  assert.equal((await request(mine.url)).status, 500);
  await mine.close();
  await h.close();
  await server.kill();
});

test("closed is 503, and a proxy without a name an error", async () => {
  const server = await Server.start();
  const h = await ready(ioredis.connect(server.url, patient));
  const direct = await app(h, { limit: perMinute(5) });
  assert.equal((await request(direct.url)).headers["x-ratelimit-remaining"], "4");
  const forwarded = await request(direct.url, { "x-forwarded-for": "192.0.2.7" });
  assert.equal(forwarded.status, 500);
  assert.match(forwarded.body, /trustedProxies/);
  for (const named of [await app(h, { limit: perMinute(5), name: "n", trustedProxies: ["127.0.0.0/8"] }), await app(h, { limit: perMinute(5), name: "x" }, "loopback")]) {
    for (const [address, left] of [["192.0.2.7", "4"], ["192.0.2.7", "3"], ["192.0.2.8", "4"], ["203.0.113.1, 192.0.2.8", "3"],
      ["2001:db8::1", "4"], ["2001:db8::2", "3"], ["2001:db8:0:1::2", "4"]]) {
      assert.equal((await request(named.url, { "x-forwarded-for": address! })).headers["x-ratelimit-remaining"], left, address);
    }
    await named.close();
  }
  const stopped = ioredis.connect(`redis://127.0.0.1:${await freePort()}`);
  const closed = await app(stopped, { limit: perMinute(5, { onFailure: "closed" }) });
  const denied = await request(closed.url);
  assert.equal(denied.status, 503);
  assert.equal(denied.headers["retry-after"], "1");
  assert.equal(denied.headers["ratelimit"], undefined);
  assert.equal((JSON.parse(denied.body) as { title: string }).title, "Service Unavailable");
  for (const c of [direct, closed, h, stopped]) await c.close();
  await server.kill();
});

test("the backstop is in front of everything", async () => {
  const h = ioredis.connect(`redis://127.0.0.1:${await freePort()}`);
  const a = await app(h, { limit: new Limit(1, "1h"), backstop: true });
  const answers = [];
  for (let i = 0; i < 12; i++) answers.push(await request(a.url));
  assert.deepEqual(answers.map((x) => x.status), [200, ...Array<number>(11).fill(429)]);
  assert.equal(answers[9]!.headers["x-ratelimit-limit"], "1");
  assert.equal(answers[11]!.headers["x-ratelimit-limit"], "10");
  await a.close();
  await h.close();
});
