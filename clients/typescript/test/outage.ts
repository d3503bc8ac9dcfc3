// What a service does while its server is killed or stopped under load.
import assert from "node:assert/strict";
import { Agent, get, type IncomingHttpHeaders } from "node:http";
import { Limit, type Headgate, type Options } from "../dist/esm/index.js";
import { lateness, Link, ready, Server, sleep } from "./server.js";

export interface App {
  url: string;
  close(): Promise<unknown>;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
  took: number;
  /** How much of that this process was late. */
  late: number;
}

const agent = new Agent({ keepAlive: true });

export function request(url: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const late = lateness();
    const began = performance.now();
    const asked = get(url, { agent, headers }, (res) => {
      let body = "";
      res.setEncoding("utf8").on("data", (s: string) => (body += s)).on("end", () => {
        resolve({ status: res.statusCode!, headers: res.headers, body, took: performance.now() - began, late: lateness() - late });
      });
    }).on("error", (e: NodeJS.ErrnoException) => {
      // The service may end an idle connection at the moment in which it is used again.
      if (asked.reusedSocket && e.code === "ECONNRESET") request(url, headers).then(resolve, reject);
      else reject(e);
    });
  });
}

/** A limit that does not refill in the time of a test. Its share is 400. */
export const ofOutage = new Limit(2000, "30d");

export const faults = ["SIGKILL", "SIGSTOP", "cut"] as const;
export type Fault = (typeof faults)[number];

/** Kills or stops the server under load, or cuts it off, and checks all that the contract promises. */
export async function outage(connect: (url: string, o: Options) => Headgate, app: (h: Headgate) => Promise<App>,
  how: Fault): Promise<void> {
  const server = await Server.start();
  const link = await Link.to(server.port);
  const told: string[] = [];
  const headgate = await ready(connect(how === "cut" ? link.url : server.url, { log: (m) => told.push(m), maxLeases: 0 }));
  const service = await app(headgate);
  let under = true;
  let load: Promise<unknown> | undefined;
  try {
    const answers: Answer[] = [];
    load = (async () => {
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
    if (how === "SIGKILL") await server.kill();
    else if (how === "SIGSTOP") server.signal("SIGSTOP");
    else link.cut();
    // A busy machine makes fewer requests in the time.
    const [since, seen] = [performance.now(), answers.length];
    while (performance.now() - since < 1800 || (answers.length - seen < 500 && performance.now() - since < 20_000)) await sleep(10);
    assert.equal(headgate.state, "open");
    const away = headgate.stats();
    if (how === "SIGKILL") await server.start();
    else if (how === "SIGSTOP") server.signal("SIGCONT");
    else link.heal();
    const [back, late] = [performance.now(), lateness()];
    // A machine that is late may lose two PINGs.
    while (headgate.state === "open" && performance.now() - back < (lateness() - late < 10 ? 3000 : 8000)) await sleep(5);
    assert.equal(headgate.state, "closed", "the breaker closes within 3 s");
    await sleep(200);
    under = false;
    await load;
    await sleep(100);

    const { fallback, failures, chargedBack } = headgate.stats();
    const statuses = new Set(answers.map((a) => a.status));
    assert.deepEqual([...statuses].filter((s) => s !== 200 && s !== 429), [], "no other answer than 200 and 429");
    // A busy machine makes the service itself slow.
    const slowest = Math.max(...answers.map((a) => a.took - a.late));
    assert.ok(slowest <= 70, `the slowest answer took ${slowest} ms`);
    assert.ok(away.fallback - before.fallback > 400, `${away.fallback} decisions without the server`);
    // On a busy machine the breaker may open for less than this outage too.
    const { opened, state } = headgate.stats();
    assert.equal(told.length, 2 * opened - (state === "open" ? 1 : 0), `told once each: ${told}`);
    assert.ok(chargedBack <= 0.2 * ofOutage.capacity + 5, `${chargedBack} admitted by a share of 400`);
    assert.ok(chargedBack > 300, `${chargedBack} charged`);
    const admitted = answers.filter((a) => a.status === 200).length - (how === "SIGKILL" ? before.admitted : 0);
    let left = await headgate.peek("default:me", ofOutage);
    for (let i = 0; left.source !== "server" && i < 300; i++) { // a share says nothing of what is charged
      await sleep(10);
      left = await headgate.peek("default:me", ofOutage);
    }
    const used = ofOutage.capacity - left.remaining;
    // Calls without a known outcome may be charged or not, but not twice. Of those before a kill, some may have been under way.
    const doubt = failures - before.failures + 5;
    // One that the share denied may be charged too. It has waited for the server.
    const denied = answers.filter((a) => a.status === 429 && a.took > 45).length;
    assert.ok(used <= admitted + denied + 1 && used >= admitted - doubt, `${used} are charged, ${admitted} were admitted, ${doubt} in doubt of ${fallback}`);
  } finally {
    under = false;
    await load?.catch(() => {}); // what has failed is known
    await service.close();
    await headgate.close();
    link.close();
    await server.kill();
  }
}
