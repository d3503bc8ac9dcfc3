import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import Koa from "koa";
import ratelimit from "koa-ratelimit";
import { sleep, withIORedis } from "./server.mjs";

// withApp runs body with a function that asks an application behind a limiter.
const withApp = (options, body) => withIORedis(async (db) => {
  const app = new Koa();
  app.use(ratelimit({ driver: "redis", db, duration: 1000, max: 2, id: (ctx) => ctx.get("user"), ...options }));
  app.use((ctx) => { ctx.body = "fine"; });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await body((user) => fetch(`http://127.0.0.1:${server.address().port}/`, { headers: { user } }));
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("two pass and the third is told to come later", () => withApp({}, async (ask) => {
  for (const remaining of ["1", "0"]) {
    const res = await ask("a");
    assert.equal(res.status, 200);
    assert.equal(res.headers.get("x-ratelimit-limit"), "2");
    assert.equal(res.headers.get("x-ratelimit-remaining"), remaining);
  }
  const res = await ask("a");
  assert.equal(res.status, 429);
  assert.match(res.headers.get("retry-after"), /^-?\d+$/);
  assert.match(await res.text(), /Rate limit exceeded/);
  assert.equal((await ask("b")).status, 200);
}));

test("it passes again when the window is over", () => withApp({ max: 1, duration: 300 }, async (ask) => {
  assert.equal((await ask("a")).status, 200);
  assert.equal((await ask("a")).status, 429);
  await sleep(350);
  assert.equal((await ask("a")).status, 200);
}));
