// What a service does while its server is killed or stopped under load.
import assert from "node:assert/strict";
import { Agent, get, type IncomingHttpHeaders } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Limit, perHour, type Headgate, type Options } from "../dist/esm/index.js";
import { ready, Server, sleep } from "./server.js";

export interface App {
  url: string;
  close(): Promise<unknown>;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
  took: number;
}

const agent = new Agent({ keepAlive: true });

export function request(url: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    get(url, { agent, headers }, (res) => {
      let body = "";
      res.setEncoding("utf8").on("data", (s: string) => (body += s)).on("end", () => {
        resolve({ status: res.statusCode!, headers: res.headers, body, took: performance.now() - began });
      });
    }).on("error", reject);
  });
}

/** A limit that refills by 20 in the time of a test. Its share is 400. */
export const ofOutage: Limit = perHour(2000);

/** Kills or stops the server under load, and checks all that the contract promises. */
export async function outage(connect: (url: string, o: Options) => Headgate, app: (h: Headgate) => Promise<App>,
  how: "SIGKILL" | "SIGSTOP"): Promise<void> {
  const server = await Server.start();
  const told: string[] = [];
  const headgate = await ready(connect(server.url, { log: (m) => told.push(m), maxLeases: 0 }));
  const service = await app(headgate);
  try {
    const answers: Answer[] = [];
    const delay = monitorEventLoopDelay({ resolution: 5 });
    let under = true;
    const load = (async () => {
      const all: Promise<unknown>[] = [];
      while (under) {
        all.push(request(service.url).then((a) => answers.push(a)));
        await sleep(3);
      }
      await Promise.all(all);
    })();
    await sleep(300);
    assert.deepEqual(new Set(answers.map((a) => a.status)), new Set([200]), "before");
    const before = { admitted: answers.length, ...headgate.stats() };
    delay.enable();
    if (how === "SIGKILL") await server.kill();
    else server.signal("SIGSTOP");
    await sleep(1800);
    assert.equal(headgate.state, "open");
    const away = headgate.stats();
    if (how === "SIGKILL") await server.start();
    else server.signal("SIGCONT");
    const back = performance.now();
    while (headgate.state === "open" && performance.now() - back < 3000) await sleep(5);
    assert.equal(headgate.state, "closed", "the breaker closes within 3 s");
    await sleep(200);
    under = false;
    await load;
    delay.disable();
    await sleep(100);

    const { fallback, failures, chargedBack } = headgate.stats();
    const statuses = new Set(answers.map((a) => a.status));
    assert.deepEqual([...statuses].filter((s) => s !== 200 && s !== 429), [], "no other answer than 200 and 429");
    const slowest = Math.max(...answers.map((a) => a.took));
    assert.ok(slowest <= 60 + 2 * (delay.max / 1e6), `the slowest answer took ${slowest} ms, the process was busy for ${delay.max / 1e6}`);
    assert.ok(away.fallback - before.fallback > 100, `${away.fallback} decisions without the server`);
    // On a busy machine the breaker may open for less than this outage too.
    const { opened, state } = headgate.stats();
    assert.equal(told.length, 2 * opened - (state === "open" ? 1 : 0), `told once each: ${told}`);
    assert.ok(chargedBack <= 0.2 * ofOutage.capacity + 5, `${chargedBack} admitted by a share of 400`);
    assert.ok(chargedBack > 100, `${chargedBack} charged`);
    const admitted = answers.filter((a) => a.status === 200).length - (how === "SIGKILL" ? before.admitted : 0);
    const used = ofOutage.capacity - (await headgate.peek("default:me", ofOutage)).remaining;
    // Calls without a known outcome may be charged or not, and time refills some units.
    const doubt = failures - before.failures + 20;
    assert.ok(Math.abs(used - admitted) <= doubt, `${used} are charged, ${admitted} were admitted, ${doubt} in doubt of ${fallback}`);
  } finally {
    await service.close();
    await headgate.close();
    await server.kill();
  }
}
