// Fastify, Hono and NestJS, as their documents set middleware up.
import { serve as listen, type HttpBindings } from "@hono/node-server";
import { Controller, Get, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { Hono } from "hono";
import fastify from "fastify";
import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import "reflect-metadata";
import * as forFastify from "../dist/esm/fastify.js";
import type { GuardOptions } from "../dist/esm/express.js";
import * as forHono from "../dist/esm/hono.js";
import { Limit, type Headgate } from "../dist/esm/index.js";
import { connect } from "../dist/esm/ioredis.js";
import { HeadgateGuard } from "../dist/esm/nestjs.js";
import { faults, ofOutage, outage, request, type App } from "./outage.js";
import { block, serve } from "./programs.js";
import { patient, ready, Server } from "./server.js";

type Make = (h: Headgate, o: GuardOptions<any>) => Promise<App>;

const makers: Record<string, Make> = {
  async Fastify(h, o) {
    const app = fastify({ forceCloseConnections: true });
    await app.register(forFastify.rateLimit, { headgate: h, ...o });
    app.get("/", async () => "hello");
    return { url: `${await app.listen({ host: "127.0.0.1", port: 0 })}/`, close: () => app.close() };
  },
  async Hono(h, o) {
    const app = new Hono<{ Bindings: HttpBindings }>();
    app.use(forHono.rateLimit(h, o));
    app.get("/", (c) => c.text("hello"));
    const s = listen({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 });
    await new Promise((r) => s.once("listening", r));
    return {
      url: `http://127.0.0.1:${(s.address() as AddressInfo).port}/`,
      close: async () => {
        (s as import("node:http").Server).closeAllConnections();
        s.close();
      },
    };
  },
  async NestJS(h, o) {
    class Root {
      hello(): string {
        return "hello";
      }
    }
    Controller()(Root);
    Get()(Root.prototype, "hello", Object.getOwnPropertyDescriptor(Root.prototype, "hello")!);
    class App {}
    Module({ controllers: [Root], providers: [{ provide: APP_GUARD, useFactory: () => new HeadgateGuard(h, o) }] })(App);
    const app = await NestFactory.create(App, { logger: false, forceCloseConnections: true });
    await app.listen(0, "127.0.0.1");
    return { url: `${await app.getUrl()}/`, close: () => app.close() };
  },
};

for (const [name, kind, has] of [["Fastify", "js", "headgate/fastify"], ["Hono", "js", "headgate/hono"], ["NestJS", "ts", "headgate/nestjs"]] as const) {
  test(`${name}: the README's program`, { skip: name === "NestJS" && !process.env.LONG }, async (t) => {
    const server = await Server.start();
    const { url, end } = await serve(t, block("README.md", kind, `from "${has}"`), server, kind === "ts" ? "mts" : "mjs");
    const first = await request(url);
    assert.deepEqual([first.status, first.body, first.headers["x-ratelimit-limit"], first.headers["ratelimit-policy"]],
      [200, "hello\n", "60", '"default";q=60;w=60']);
    let last = first;
    for (let i = 0; i < 70 && last.status === 200; i++) last = await request(url);
    assert.equal(last.status, 429);
    await server.kill();
    for (let i = 0; i < 10; i++) {
      const { status, took, late } = await request(url);
      assert.ok(status === 200 || status === 429, String(status));
      assert.ok(took - late < 150, `${took} ms`);
    }
    assert.equal(await end(), 0, "the service ends");
  });
}

for (const [name, make] of Object.entries(makers)) {
  test(`${name}: header fields of answers`, async () => {
    const server = await Server.start();
    const h = await ready(connect(server.url, patient));
    const app = await make(h, { limit: new Limit(1, "1h"), maxRetryAfter: 60 });
    const first = await request(app.url);
    assert.equal(first.status, 200);
    assert.equal(first.body, "hello");
    assert.equal(first.headers["ratelimit"], '"default";r=0;t=3600');
    assert.equal(first.headers["ratelimit-policy"], '"default";q=1;w=3600');
    assert.equal(first.headers["x-ratelimit-remaining"], "0");
    const denied = await request(app.url);
    assert.equal(denied.status, 429);
    assert.match(denied.headers["content-type"]!, /^application\/problem\+json/);
    assert.match(denied.headers["ratelimit"] as string, /^"default";r=0;t=3600$/);
    assert.equal(denied.headers["retry-after"], "60");
    const { retry_after_ms, ...rest } = JSON.parse(denied.body) as Record<string, unknown>;
    assert.deepEqual(rest, { type: "about:blank", title: "Too Many Requests", status: 429 });
    assert.ok(Number(retry_after_ms) > 3_590_000);
    assert.equal((await request(app.url, { "x-forwarded-for": "192.0.2.1" })).status, 500);
    await app.close();
    const proxied = await make(h, { limit: new Limit(1, "1h"), trustedProxies: ["127.0.0.1"] });
    assert.equal((await request(proxied.url, { "x-forwarded-for": "192.0.2.1" })).status, 200);
    assert.equal((await request(proxied.url, { "x-forwarded-for": "192.0.2.1" })).status, 429);
    assert.equal((await request(proxied.url, { "x-forwarded-for": "192.0.2.2" })).status, 200);
    await proxied.close();
    await h.close();
    await server.kill();
  });

  for (const how of faults) {
    test(`${name} outlives ${how}`, { skip: !process.env.LONG }, () => outage(connect, (h) => make(h, { limit: ofOutage, key: () => "me" }), how));
  }
}
