// Three nodes whose leader is killed, and ten processes whose server stops.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Limit, perSecond, type Decision } from "../dist/esm/index.js";
import * as ioredis from "../dist/esm/ioredis.js";
import * as nodeRedis from "../dist/esm/node-redis.js";
import { binary, freePort, lateness, patient, ready, Server, sleep } from "./server.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const clients = { ioredis, "node-redis": nodeRedis };

/** clients/compat/go/cluster: three nodes, and what kills their leader. */
class Cluster {
  private constructor(readonly urls: string[], private readonly tell: (command: string) => Promise<string>, readonly stop: () => Promise<void>) {}

  static async start(): Promise<Cluster> {
    let program = process.env.HGTEST_CLUSTER;
    if (!program) {
      program = join(tmpdir(), `headgate-cluster-${process.pid}`);
      execFileSync("go", ["build", "-o", program, "./clients/compat/go/cluster"], { cwd: root });
    }
    const p = spawn(program, [], { env: { ...process.env, HGTEST_BIN: binary() }, stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface(p.stdout)[Symbol.asyncIterator]();
    const line = async (): Promise<string> => {
      const { value } = await lines.next() as { value?: string };
      assert.ok(value, "the cluster ended");
      return value;
    };
    const [, ...nodes] = (await line()).split(" ");
    return new Cluster(nodes.map((n) => `redis://${n}`), (command) => {
      p.stdin.write(`${command}\n`);
      return line();
    }, async () => {
      p.stdin.end();
      await new Promise((r) => p.once("exit", r));
    });
  }

  async kill(): Promise<void> {
    await this.tell("kill");
    await this.tell("leader");
  }

  async restart(): Promise<void> {
    await this.tell("restart");
  }
}

test("leaders are killed in mid-load: no request fails", { skip: !process.env.LONG }, async (t) => {
  const cluster = await Cluster.start();
  try {
    for (const [name, { connect }] of Object.entries(clients)) {
      const h = await ready(connect(cluster.urls, { log: () => {} }));
      // One of the libraries decides by leases, the other asks each time.
      const limit = new Limit(100_000, "1h", { leased: name === "ioredis" });
      const decisions: Decision[] = [];
      let worst = 0;
      let under = true;
      const workers = Array.from({ length: 8 }, async () => {
        while (under) {
          const [began, late] = [performance.now(), lateness()];
          decisions.push(await h.allow(`kills:${name}`, limit));
          worst = Math.max(worst, performance.now() - began - (lateness() - late));
          await sleep(20);
        }
      });
      for (let i = 0; i < 2; i++) {
        await sleep(500);
        await cluster.kill();
        const back = performance.now();
        while (h.state === "open") {
          assert.ok(performance.now() - back < 3000, "the breaker is open although there is a leader");
          await sleep(5);
        }
        await cluster.restart();
      }
      await sleep(500);
      under = false;
      await Promise.all(workers);
      // On a busy machine the breaker may have opened again.
      for (const end = performance.now() + 3000; h.state === "open" && performance.now() < end;) await sleep(5);
      const count = (source: string): number => decisions.filter((d) => d.source === source).length;
      t.diagnostic(`${name}: ${["server", "lease", "fallback"].map((s) => `${count(s)} ${s}`).join(", ")}; worst ${worst.toFixed(1)} ms; opened ${h.stats().opened}`);
      assert.deepEqual(decisions.filter((d) => !d.allowed), []);
      assert.ok(count("lease") + count("server") > 200, "the cluster decides most of the time");
      assert.ok(worst < 60, `a call took ${worst} ms`);
      assert.equal(h.state, "closed");
      await h.close();
    }
  } finally {
    await cluster.stop();
  }
});

for (const [name, { connect }] of Object.entries(clients)) {
  test(`${name}: the first nodes are dead`, async () => {
    const server = await Server.start();
    const dead = [await freePort(), await freePort()].map((port) => `redis://127.0.0.1:${port}`);
    const h = connect([...dead, server.url], { ...patient, log: () => {} });
    assert.equal((await h.allow("k", perSecond(10))).source, "server", "the first call waits for a node that is there");
    await h.close();
    await server.kill();
  });
}

/** How finely callers tell when their calls were admitted, in milliseconds. */
const slot = 50;
const seconds = 7;
/** When the server stops, in milliseconds: by then each has heard of all holders. */
const spike = 3000;

interface Called { admitted: number[]; opened: number; before: number[]; away: number[]; late: number }

/** A process that asks 40 times per second from the time at which it is told to, and ten times as often from when the server stops. */
async function caller(url: string): Promise<{ ask: (from: number, stop: number) => Promise<Called> }> {
  const dist = new URL("../dist/esm/", import.meta.url).href;
  const p = spawn(process.execPath, ["--input-type=module", "-e", `
    import { perSecond } from "${dist}index.js";
    import { connect } from "${dist}ioredis.js";
    const h = connect("${url}", { log: () => {} });
    const r = { admitted: Array(${(seconds * 1000) / slot + 200}).fill(0), before: [], away: [], late: 0 };
    let last = performance.now(), sum = 0;
    const gap = () => Math.max(performance.now() - last - 5, 0);
    setInterval(() => {
      r.late = Math.max(r.late, gap());
      sum += gap();
      last = performance.now();
    }, 5).unref();
    const limit = perSecond(400);
    const under = [];
    await h.allow("ready", limit);
    const [from, stop] = await new Promise((r) => {
      process.once("message", r);
      process.send("ready");
    });
    r.late = 0;
    for (let at = from; at < from + ${seconds * 1000}; at += -Math.log(1 - Math.random()) * (Date.now() - from < stop ? 25 : 2.5)) {
      while (Date.now() < at) await new Promise((r) => setTimeout(r, at - Date.now()));
      const [began, late] = [performance.now(), sum + gap()];
      under.push(h.allow("cascade", limit).then((d) => {
        const now = Date.now() - from;
        const took = performance.now() - began - (sum + gap() - late);
        if (now > stop - 1000 && now < stop) r.before.push(took);
        else if (now > stop + 500 && now < stop + 3000) r.away.push(took);
        if (d.allowed) r.admitted[Math.floor(now / ${slot})]++;
      }));
      if (under.length % 50 === 0) await Promise.all(under.splice(0));
    }
    await Promise.all(under);
    process.send({ ...r, opened: h.stats().opened }, () => process.disconnect());
    await h.close();
  `], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const next = (): Promise<unknown> => new Promise((resolve, reject) => {
    p.once("message", resolve);
    p.once("exit", (code) => reject(new Error(`a caller ended with status ${code}`)));
  });
  await next();
  return {
    ask(from, stop) {
      p.send([from, stop]);
      return next() as Promise<Called>;
    },
  };
}

// They have leases, so each knows its share.
test("ten processes ask for ten times as much from when the server stops", { skip: !process.env.LONG }, async (t) => {
  const server = await Server.start();
  const limit = perSecond(400);
  const callers = await Promise.all(Array.from({ length: 10 }, () => caller(server.url)));
  const from = Date.now() + 200;
  const called = callers.map((c) => c.ask(from, spike));
  await sleep(from + spike - Date.now());
  server.signal("SIGSTOP");
  const stopped = Date.now() - from;
  await sleep(3000);
  server.signal("SIGCONT");
  const resumed = Date.now() - from;
  const all = await Promise.all(called);
  await server.kill();
  let admitted = 0;
  for (const c of all) {
    // A machine that is late may open a breaker before, or after.
    assert.ok(c.opened === 1 || (c.late > 20 && c.opened > 1), `the breaker opened ${c.opened} times, late by ${c.late} ms`);
    for (let i = Math.floor(stopped / slot); i < Math.floor(resumed / slot); i++) admitted += c.admitted[i]!;
  }
  const p99 = (of: number[]): number => of.sort((a, b) => a - b)[Math.floor(of.length * 0.99)]!;
  const [before, away] = [p99(all.flatMap((c) => c.before)), p99(all.flatMap((c) => c.away))];
  // Ten shares of a tenth, and the leases that were out.
  const lasted = (resumed - stopped) / 1000;
  const most = limit.units * (1 + lasted) + limit.units / 4;
  t.diagnostic(`${admitted} admitted in ${lasted} s beside a stopped server, at most ${most.toFixed(0)}; p99 of a call ${before.toFixed(2)} ms before, ${away.toFixed(2)} ms meanwhile`);
  assert.ok(admitted <= most * 1.05, `${admitted} admitted, at most ${most}`);
  assert.ok(admitted > limit.units * lasted * 0.8, `${admitted} admitted: a share is used`);
  // The first calls without the server wait for it. After those nobody does.
  assert.ok(away < 2 * Math.max(before, 5), `p99 of a call: ${before} ms, and ${away} ms while the server is away`);
});
