// Servers that misbehave. No call waits longer than its timeout, and none is an error that is not the caller's.
import assert from "node:assert/strict";
import dns from "node:dns";
import { createServer as createHttp } from "node:http";
import { createServer, type AddressInfo, type Server as TcpServer, type Socket } from "node:net";
import { test } from "node:test";
import { createClient } from "redis";
import { Redis } from "ioredis";
import { HeadgateError, Limit, perHour, perMinute, type Decision, type Headgate } from "../dist/esm/index.js";
import * as ioredis from "../dist/esm/ioredis.js";
import * as nodeRedis from "../dist/esm/node-redis.js";
import { freePort, lateness, Link, patient, ready, Server, sleep } from "./server.js";

const clients = { ioredis, "node-redis": nodeRedis };
const quiet = { log: () => {}, maxLeases: 0 };

async function listen(s: TcpServer): Promise<{ url: string; close: () => void }> {
  const open = new Set<Socket>();
  s.on("connection", (c: Socket) => open.add(c.on("error", () => {}).on("close", () => open.delete(c))));
  await new Promise<void>((r) => s.listen(0, "127.0.0.1", r));
  return {
    url: `redis://127.0.0.1:${(s.address() as AddressInfo).port}`,
    close: () => {
      for (const c of open) c.destroy();
      s.close();
    },
  };
}

/** A server that speaks RESP, and answers each command but those of the handshake with what f says. */
function fake(f: (args: string[], reply: (text: string) => void) => void): TcpServer {
  return createServer((c) => {
    let text = "";
    c.setEncoding("latin1").on("data", (s: string) => {
      text += s;
      for (;;) {
        const m = /^\*(\d+)\r\n/.exec(text);
        if (!m) return;
        let at = m[0].length;
        const args: string[] = [];
        for (let i = 0; i < Number(m[1]); i++) {
          const l = /^\$(\d+)\r\n/.exec(text.slice(at));
          if (!l || text.length < at + l[0].length + Number(l[1]) + 2) return;
          args.push(text.slice(at + l[0].length, at + l[0].length + Number(l[1])));
          at += l[0].length + Number(l[1]) + 2;
        }
        text = text.slice(at);
        if (args[0]!.toUpperCase() === "HELLO") c.write("%1\r\n$6\r\nserver\r\n$4\r\nfake\r\n");
        else if (args[0]!.toUpperCase() === "CLIENT") c.write("+OK\r\n");
        else f(args, (t) => c.writable && c.write(t));
      }
    });
  });
}

/** Makes calls, and checks that none takes longer than 60 ms, unless the process was late. */
async function calls(h: Headgate, n: number, limit: Limit): Promise<Decision[]> {
  const of: Decision[] = [];
  for (let i = 0; i < n; i++) {
    const late = lateness();
    const began = performance.now();
    of.push(await h.allow("k", limit));
    const took = performance.now() - began - (lateness() - late);
    assert.ok(took <= 60, `a call took ${took} ms`);
  }
  return of;
}

const away = async (h: Headgate): Promise<void> => {
  const of = await calls(h, 7, perHour(20));
  assert.deepEqual(of.map((d) => [d.allowed, d.source]), [...Array<unknown>(4).fill([true, "fallback"]), ...Array<unknown>(3).fill([false, "fallback"])]);
  assert.equal(h.state, "open");
};

for (const [name, { connect }] of Object.entries(clients)) {
  // The quick tests have one of the libraries.
  const o = { skip: name !== "ioredis" && !process.env.LONG };
  test(`${name}: nobody listens`, o, async () => {
    const h = connect(`redis://127.0.0.1:${await freePort()}`, quiet);
    await away(h);
    await h.close();
  });

  test(`${name}: the server hangs at connect, and answers later`, o, async () => {
    let hangs = true;
    const s = await listen(createServer((c) => {
      if (hangs) return;
      c.destroy();
    }));
    const h = connect(s.url, quiet);
    await away(h);
    hangs = false;
    await sleep(700);
    assert.equal(h.state, "open");
    await h.close();
    s.close();
  });

  test(`${name}: connections die without a word`, o, async () => {
    const server = await Server.start();
    const link = await Link.to(server.port);
    const told: string[] = [];
    const h = await ready(connect(link.url, { log: (m) => told.push(m), maxLeases: 0 }));
    link.cut(true);
    await away(h);
    const began = performance.now();
    while (h.state === "open" && performance.now() - began < 3000) await sleep(10);
    assert.equal(h.state, "closed", "a new connection is made");
    await ready(h);
    assert.equal(h.state, "closed", String(told));
    await h.close();
    link.close();
    await server.kill();
  });

  test(`${name}: the server answers after 60 ms`, o, async () => {
    const s = await listen(fake((_, reply) => setTimeout(() => reply("*6\r\n:1\r\n:9\r\n:9\r\n:0\r\n:0\r\n:0\r\n"), 60)));
    const h = connect(s.url, quiet);
    const late = lateness();
    const of = await calls(h, 8, perHour(20));
    // A reply that has come by the time at which a busy process looks is taken.
    if (lateness() - late < 5) assert.deepEqual(new Set(of.map((d) => d.source)), new Set(["fallback"]));
    await h.close();
    s.close();
  });

  test(`${name}: OOM, another server, and one that speaks HTTP`, o, async () => {
    for (const text of ["-OOM command not allowed\r\n", "-ERR unknown command 'RL.LIMIT'\r\n", "$-1\r\n"]) {
      const s = await listen(fake((_, reply) => reply(text)));
      const h = connect(s.url, quiet);
      await away(h);
      await h.close();
      s.close();
    }
    const http = createHttp((_, res) => res.end("hello"));
    const s = await listen(http);
    const h = connect(s.url, quiet);
    await away(h);
    await h.close();
    s.close();
  });

  test(`${name}: a password that is missing, wrong and right`, o, async () => {
    const server = await Server.start("--requirepass", "secret");
    for (const url of [server.url, server.url.replace("//", "//:wrong@")]) {
      const h = connect(url, quiet);
      await away(h);
      await h.close();
    }
    const h = await ready(connect(server.url.replace("//", "//:secret@"), { ...quiet, ...patient }));
    assert.equal((await h.allow("k", perMinute(2))).source, "server");
    await h.close();
    await server.kill();
  });

  test(`${name}: the caller's mistakes are errors`, o, async () => {
    const server = await Server.start();
    const h = await ready(connect(server.url, { ...quiet, ...patient }));
    await h.allow("k", perMinute(2));
    for (const call of [() => h.allow("k", new Limit(2, "1m", { algorithm: "log" })), () => h.check("none", {}), () => h.allow("r", new Limit(2_000_000, 1))]) {
      await assert.rejects(call(), (e: Error) => e instanceof HeadgateError);
    }
    await assert.rejects(h.allow("k", perMinute(2), 1, { signal: AbortSignal.abort(new Error("gone")) }), /gone/);
    assert.equal(h.state, "closed");
    await h.close();
    await assert.rejects(h.allow("k", perMinute(2)), /closed/);
    await server.kill();
  });

  test(`${name}: the name of the server is not resolved`, o, async () => {
    const { lookup } = dns;
    dns.lookup = (() => {}) as never;
    try {
      const h = connect("redis://headgate.test:7379", quiet);
      await away(h);
      await h.close();
    } finally {
      dns.lookup = lookup;
    }
  });
}

test("clients that are handed over are used, stay open, and have warnings", async () => {
  const server = await Server.start();
  const told: string[] = [];
  const o = { ...patient, log: (m: string) => told.push(m), maxLeases: 0 };
  const redis = new Redis(server.url);
  let h = ioredis.fromClient(redis, o);
  assert.equal(told.length, 4, String(told));
  for (const word of ["enableOfflineQueue", "autoResend", "maxRetriesPerRequest", "handler"]) assert.match(String(told), new RegExp(word));
  await ready(h);
  const first = await h.allow("k", perMinute(2));
  assert.deepEqual([first.source, first.limit, first.remaining], ["server", 2, 1], "the names and values of a map in turn");
  await h.close();
  assert.equal(await redis.ping(), "PONG");
  told.length = 0;
  const safe = new Redis(server.url, { enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 });
  safe.on("error", () => {});
  h = ioredis.fromClient(safe, o);
  assert.deepEqual(told, [], String(told));
  assert.equal((await (await ready(h)).allow("k", perMinute(2))).source, "server");

  const client = createClient({ url: server.url, RESP: 2 });
  h = nodeRedis.fromClient(client, o);
  assert.equal(told.length, 3, String(told));
  client.on("error", () => {});
  await client.connect();
  assert.equal((await (await ready(h)).allow("n", perMinute(2))).source, "server");
  await h.close();
  assert.equal(await client.ping(), "PONG");
  await server.kill();
  // The queue of the client does not get charges while it has no connection.
  while (redis.status === "ready") await sleep(5);
  h = ioredis.fromClient(redis, o);
  assert.equal((await h.allow("k", perMinute(10))).source, "fallback");
  assert.equal((redis as unknown as { offlineQueue: unknown[] }).offlineQueue.length, 0);
  redis.disconnect();
  safe.disconnect();
  client.destroy();
});
