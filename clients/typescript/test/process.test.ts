// Processes: workers of a cluster have blocks of their own, and nothing of ours keeps a process alive.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { Server } from "./server.js";

const dist = new URL("../dist/esm/", import.meta.url).href;

/** Runs a program, and returns what it prints. It must end by itself. */
async function run(program: string, ...args: string[]): Promise<string> {
  const p = spawn(process.execPath, ["--input-type=module", "-e", program, ...args], { cwd: fileURLToPath(new URL("..", import.meta.url)) });
  let out = "";
  p.stdout.on("data", (d) => (out += d));
  p.stderr.on("data", (d) => (out += d));
  const timer = setTimeout(() => p.kill("SIGKILL"), 10_000);
  const [code, signal] = await new Promise<[number | null, string | null]>((r) => p.on("exit", (...of) => r(of)));
  clearTimeout(timer);
  assert.equal(code, 0, `${signal}: ${out}`);
  return out;
}

test("timers of an open breaker, of leases and of charges keep no process alive", async () => {
  assert.equal(await run(`
    import { Headgate, NotSentError, perSecond } from "${dist}index.js";
    let up = true;
    const h = new Headgate({
      send: async (args) => {
        if (!up) throw new NotSentError("away");
        return args[0] === "RL.LEASE" ? [1, 1000, 900, 0, 100, 0, 101, 60000, 0, 0, 1] : [1, 1000, 900, 0, 100, 0];
      },
    }, { log: (m) => console.log(m), leaseTtl: 60000 });
    for (let i = 0; i < 50; i++) await h.allow("k", perSecond(1000));
    console.log(h.stats().leases);
    up = false;
    for (let i = 0; i < 6; i++) await h.allow("other" + i, perSecond(1000));
    console.log(h.state);
  `), "1\nheadgate: the server is away, limits are decided here: away\nopen\n");
});

test("workers of a cluster do not share blocks", async () => {
  const server = await Server.start();
  const redis = new Redis(server.url);
  const holders = async (): Promise<unknown> => {
    const about = ((await redis.call("RL.EXPLAIN", "k")) ?? []) as unknown[];
    return about.includes("holders") ? about[about.indexOf("holders") + 1] : 0;
  };
  let most = 0;
  const watch = setInterval(() => void holders().then((n) => (most = Math.max(most, Number(n)))), 20);
  const out = await run(`
    import cluster from "node:cluster";
    import { writeFileSync } from "node:fs";
    if (cluster.isPrimary) {
      const file = new URL("worker.mjs", "file://" + process.argv[1] + "/");
      writeFileSync(file, process.argv[2]);
      cluster.setupPrimary({ exec: file.pathname, args: [], execArgv: [] });
      const one = cluster.fork(), two = cluster.fork();
      let ready = 0, ended = 0;
      for (const w of [one, two]) {
        w.on("message", (m) => {
          console.log(m);
          if (++ready === 2) for (const v of [one, two]) v.send("end");
        });
        w.on("exit", (code) => {
          if (++ended === 2) console.log("end", code);
        });
      }
    }
  `, fileURLToPath(new URL("../out", import.meta.url)), `
    import { perSecond } from "${dist}index.js";
    import { connect } from "${dist}ioredis.js";
    const h = connect("${server.url}");
    let asked = 0;
    do {
      for (let i = 0; i < 50; i++, asked++) await h.allow("k", perSecond(1000));
      await new Promise((r) => setTimeout(r, 20));
    } while (asked < 10000 && h.stats().leased < 20);
    process.send(h.stats().leases + " lease");
    const going = setInterval(() => h.allow("k", perSecond(1000)).catch(() => {}), 10);
    process.on("message", async () => {
      await new Promise((r) => setTimeout(r, 500));
      clearInterval(going);
      await h.close();
      process.disconnect();
    });
  `);
  clearInterval(watch);
  assert.equal(out, "1 lease\n1 lease\nend 0\n");
  assert.equal(most, 2, "each worker is a holder");
  assert.equal(await holders(), 0, "close gives the blocks back");
  redis.disconnect();
  await server.kill();
});
