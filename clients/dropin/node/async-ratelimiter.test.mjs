import assert from "node:assert/strict";
import { test } from "node:test";
import RateLimiter from "async-ratelimiter";
import { sleep, withIORedis } from "./server.mjs";

const check = (title, body) => test(title, () => withIORedis((db) => body((more) => new RateLimiter({ db, max: 4, duration: 1000, ...more }), db)));

check("calls are counted down", async (make) => {
  const limiter = make();
  for (const remaining of [4, 3, 2, 1, 0, 0]) {
    const res = await limiter.get({ id: "a" });
    assert.equal(res.remaining, remaining);
    assert.equal(res.total, 4);
    assert.ok(Math.abs(res.reset - Date.now() / 1000) <= 2, res.reset);
  }
  assert.equal((await limiter.get({ id: "b" })).remaining, 4);
});

check("a look takes nothing", async (make) => {
  const limiter = make();
  await limiter.get({ id: "a" });
  for (let i = 0; i < 3; i++) assert.equal((await limiter.get({ id: "a", peek: true })).remaining, 3);
});

check("calls slide out of the window", async (make) => {
  const limiter = make({ max: 2, duration: 400 });
  await limiter.get({ id: "a" });
  await sleep(250);
  await limiter.get({ id: "a" });
  assert.equal((await limiter.get({ id: "a" })).remaining, 0);
  await sleep(250);
  assert.equal((await limiter.get({ id: "a" })).remaining, 1);
});

check("a limit that shrinks", async (make) => {
  for (let i = 0; i < 4; i++) await make().get({ id: "a" });
  assert.equal((await make({ max: 2 }).get({ id: "a" })).remaining, 0);
});

check("the key goes when its window ends", async (make, db) => {
  await make({ duration: 300 }).get({ id: "a" });
  assert.equal(await db.exists("limit:a"), 1);
  await sleep(350);
  assert.equal(await db.exists("limit:a"), 0);
});
