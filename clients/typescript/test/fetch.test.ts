import assert from "node:assert/strict";
import { test } from "node:test";
import { spacedFetch } from "../dist/esm/fetch.js";
import { Clock, settle } from "./virtual.js";

/** Runs n requests one after the other, and returns when each was sent. */
async function run(n: number, answer: (i: number) => { status?: number; headers: Record<string, string> }, atMost?: number): Promise<number[]> {
  const clock = new Clock();
  const sent: number[] = [];
  const f = spacedFetch({
    runtime: clock, ...(atMost !== undefined && { atMost }),
    fetch: async () => {
      const a = answer(sent.length);
      sent.push(clock.now());
      return new Response("", { status: a.status ?? 200, headers: a.headers });
    },
  });
  for (let i = 0; i < n; i++) {
    let done = false;
    let error: unknown;
    void f("http://example.test/").then(() => (done = true), (e: unknown) => (error = e));
    await settle();
    while (!done && !error && (await clock.step())) ;
    if (error) throw error;
  }
  return sent;
}

test("requests are spaced from half of the quota on", async () => {
  const sent = await run(5, (i) => ({ headers: { RateLimit: `"default";r=${9 - i * 2}`, "RateLimit-Policy": '"default";q=10;w=10' } }));
  assert.deepEqual(sent.slice(0, 3), [0, 0, 0]);
  assert.ok(sent[4]! - sent[3]! >= 1000 && sent[4]! - sent[3]! <= 1100, String(sent));
});

test("X-RateLimit fields space what is left over the time that is left", async () => {
  const sent = await run(6, (i) => ({ headers: { "X-RateLimit-Limit": "60", "X-RateLimit-Remaining": String(5 - i), "X-RateLimit-Reset": "50" } }));
  for (let i = 2; i < 5; i++) assert.ok(sent[i]! - sent[i - 1]! >= 10_000, String(sent));
});

test("an empty limit is waited for, and Retry-After is kept", async () => {
  const [, empty] = await run(2, () => ({ headers: { "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7" } }));
  assert.ok(empty! >= 7000 && empty! <= 7700, String(empty));
  const [, denied] = await run(2, (i) => (i === 0 ? { status: 429, headers: { "Retry-After": "3" } } : { headers: {} }));
  assert.ok(denied! >= 3000 && denied! <= 3300, String(denied));
  await assert.rejects(run(2, () => ({ status: 429, headers: { "Retry-After": "86400" } })), /wants no request for/);
});

test("without fields nothing waits", async () => {
  assert.deepEqual(await run(3, () => ({ headers: {} })), [0, 0, 0]);
});
