// The program of docs/howto/tiers.md, word by word, with the policy of that page.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Redis } from "ioredis";
import { request, type Answer } from "./outage.js";
import { block, serve } from "./programs.js";
import { Server } from "./server.js";

const page = "../../docs/howto/tiers.md";
const policy = block(page, "yaml", "# api.yaml");
const program = block(page, "js", "import express");
const shown = block(page, "", "$ curl -si -H 'X-Api-Key: k1'").replace(/^.*\n/, "");

/** The limit that decides while the server is away, as the header fields have it. */
const ofOutage = '"default";q=100;w=3600';

async function started(): Promise<Server> {
  const server = await Server.start();
  const redis = new Redis(server.url);
  await redis.call("RL.POLICY", "LOAD", policy);
  redis.disconnect();
  return server;
}

/** Checks the header fields that the page shows. Its times are those of the moment. */
function asShown(a: Answer): void {
  const [head, body] = shown.split("…\n");
  assert.match(head!, /^HTTP\/1\.1 429 /);
  const fields = head!.trim().split("\n").slice(1).map((line) => /^(\S+): (.*)$/.exec(line)!.slice(1) as [string, string]);
  assert.ok(fields.length >= 7, head);
  for (const [name, value] of fields) {
    const got = String(a.headers[name.toLowerCase()]).replace(/; charset=.*/, "");
    const moment = { "RateLimit": /t=\d+$/, "Retry-After": /^\d+$/, "X-RateLimit-Reset": /^\d+$/ }[name];
    assert.equal(moment ? got.replace(moment, "") : got, moment ? value.replace(moment, "") : value, name);
  }
  const [said, was] = [a.body, body!].map((b) => JSON.parse(b) as Record<string, unknown>);
  assert.deepEqual({ ...said, retry_after_ms: 0 }, { ...was, retry_after_ms: 0 });
  const wait = Number(a.headers["retry-after"]);
  assert.ok(wait > 25 && wait <= 36, String(wait));
  assert.ok(Number(said!.retry_after_ms) > 25_000 && Number(said!.retry_after_ms) <= 36_000);
  assert.equal(a.headers["ratelimit"], `"key";r=0;t=${wait}`);
  assert.ok(Math.abs(Number(a.headers["x-ratelimit-reset"]) - Date.now() / 1000 - 360) <= 12);
}

/**
 * Runs the program, and f on it. A machine that stands still for 50 ms takes the server for away, and the answers are
 * those of the limit for an outage: f then returns false, and all begins again.
 */
async function attempt(t: TestContext, code: string, f: (as: (key?: string) => Promise<Answer>, server: Server) => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 4; i++) {
    const server = await started();
    try {
      const { url, end } = await serve(t, code, server);
      const done = await f((key) => request(url, key === undefined ? {} : { "X-Api-Key": key }), server);
      assert.equal(await end(), 0, "the service ends");
      if (done) return;
    } finally {
      await server.kill();
    }
  }
  assert.fail("the server does not decide");
}

test("a service with tiers, as its page has it", (t) => attempt(t, program, async (as, server) => {
  assert.equal((await as()).status, 401);
  assert.equal((await as("nobody")).status, 401);
  const limit = (a: Answer): unknown => a.headers["ratelimit-policy"];
  let pro = await as("k2");
  let shared = 0;
  for (; limit(pro) === ofOutage && shared < 10; shared++) pro = await as("k2"); // the first calls are slow
  const of = [];
  for (let i = 0; i < 11; i++) of.push(await as("k1"));
  if ([...of, pro].some((a) => limit(a) === ofOutage)) return false;
  assert.deepEqual(of.slice(0, 10).map((a) => [a.status, a.body, limit(a)]), Array(10).fill([200, "hello\n", '"key";q=10;w=360']));
  asShown(of[10]!);
  assert.deepEqual([pro.status, limit(pro)], [200, '"key";q=100;w=60'], "the pro tier");

  await server.kill();
  const statuses = [];
  for (let i = 0; i < 30; i++) statuses.push((await as("k2")).status);
  assert.deepEqual(statuses, [...Array<number>(20 - shared).fill(200), ...Array<number>(10 + shared).fill(429)], "a fifth of 100 per hour");
  return true;
}));

test("a call of the tier revoked gets 429 without Retry-After", (t) => {
  assert.equal(program.split('["k2", "pro"]').length, 2);
  return attempt(t, program.replace('["k2", "pro"]', '["k2", "revoked"]'), async (as) => {
    const a = await as("k2");
    if (a.headers["ratelimit-policy"] === ofOutage) return false;
    assert.deepEqual([a.status, a.headers["retry-after"]], [429, undefined]);
    return true;
  });
});
