// The package as it is published: packed, installed into an empty project, and run as its README says.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { request } from "./outage.js";
import { block } from "./programs.js";
import { freePort, Server, sleep } from "./server.js";

const here = fileURLToPath(new URL("..", import.meta.url));

test("the package is installed into an empty project, and its README runs", { skip: !process.env.LONG, timeout: 180_000 }, async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "headgate-package-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const run = (cwd: string, command: string, ...args: string[]): string => execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const tarball = run(here, "npm", "pack", "--silent", "--pack-destination", dir).trim().split("\n").at(-1)!;
  const versions = (JSON.parse(readFileSync(join(here, "package.json"), "utf8")) as { devDependencies: Record<string, string> }).devDependencies;
  writeFileSync(join(dir, "package.json"), "{}");
  run(dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", `./${tarball}`,
    ...["ioredis", "redis", "express"].map((name) => `${name}@${versions[name]}`));
  const core = JSON.parse(readFileSync(join(dir, "node_modules/headgate/package.json"), "utf8")) as { dependencies?: object };
  assert.equal(core.dependencies, undefined, "the core has no dependency");

  writeFileSync(join(dir, "service.mjs"), block("README.md", "js", "import express"));
  writeFileSync(join(dir, "verbs.cjs"), block("README.md", "js", "require("));
  writeFileSync(join(dir, "outgoing.mjs"), block("README.md", "js", "spacedFetch"));

  const server = await Server.start();
  const port = await freePort();
  const env = { ...process.env, HEADGATE: server.url, PORT: String(port), API: `http://127.0.0.1:${port}/` };
  const p = spawn(process.execPath, ["service.mjs"], { cwd: dir, env, stdio: "inherit" });
  t.after(() => p.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}/`;
  let a = await request(url).catch(() => undefined);
  for (let i = 0; i < 300 && !a; i++) {
    await sleep(20);
    a = await request(url).catch(() => undefined);
  }
  assert.deepEqual([a!.status, a!.body, a!.headers["x-ratelimit-limit"]], [200, "hello\n", "60"]);
  const node = (file: string): string => execFileSync(process.execPath, [file], { cwd: dir, env, encoding: "utf8" });
  let said = node("verbs.cjs");
  // A machine that stands still for 50 ms takes the server for away.
  for (let i = 0; i < 5 && said.startsWith("again"); i++) said = node("verbs.cjs");
  assert.equal(said, "sent\nNOPOLICY\n");
  assert.equal(node("outgoing.mjs"), "200\n");

  await server.kill();
  const statuses = [];
  for (let i = 0; i < 14; i++) statuses.push((await request(url)).status);
  const passed = statuses.filter((s) => s === 200).length;
  // One more if the machine takes 5 s for it.
  assert.ok(passed === 12 || passed === 13, String(statuses));
  assert.equal(statuses.filter((s) => s === 429).length, 14 - passed, String(statuses));
  assert.match(node("verbs.cjs"), /^again in 1000 ms\n$/);
  const ended = new Promise((r) => p.on("exit", r));
  p.kill("SIGTERM");
  assert.equal(await ended, 0, "the service ends");

  // Types, for programs of both kinds.
  const uses = `
    import { Headgate, perMinute, Policy, type Decision, type Transport } from "headgate";
    import { rateLimit } from "headgate/express";
    import { rateLimit as fastify } from "headgate/fastify";
    import { fastifyStore } from "headgate/fastify-rate-limit";
    import { spacedFetch } from "headgate/fetch";
    import { headers } from "headgate/headers";
    import { rateLimit as hono } from "headgate/hono";
    import { connect } from "headgate/ioredis";
    import * as nodeRedis from "headgate/node-redis";
    import { HeadgateThrottlerStorage } from "headgate/nestjs-throttler";
    import { HeadgateStore } from "headgate/store";
    const h: Headgate = connect("redis://x"), other = nodeRedis.connect({ url: "redis://x" });
    export const d: Promise<Decision> = h.allow("k", perMinute(1));
    export const all = [rateLimit(h, { limit: new Policy("p") }), fastify, fastifyStore(h), spacedFetch(), headers, hono, other, new HeadgateThrottlerStorage(h), new HeadgateStore(h)] as const;
    export type T = Transport;
    // @ts-expect-error a limit is needed
    void h.allow("k");
  `;
  for (const kind of ["mts", "cts"]) writeFileSync(join(dir, `uses.${kind}`), uses);
  run(dir, process.execPath, join(here, "node_modules/typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022",
    "--typeRoots", join(here, "node_modules/@types"), "--types", "node", "uses.mts", "uses.cts");
});
