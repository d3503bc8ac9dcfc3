// Real servers on free ports of the loopback interface.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createConnection, createServer, type AddressInfo, type Server as TcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { perMinute, type Headgate } from "../dist/esm/index.js";

let built: string | undefined;

/** The server of this tree, or the one that the suite has built. */
export function binary(): string {
  if (process.env.HGTEST_BIN) return process.env.HGTEST_BIN;
  if (!built) {
    built = join(tmpdir(), `headgate-sdk-${process.pid}`);
    execFileSync("go", ["build", "-o", built, "./cmd/headgate"], { cwd: fileURLToPath(new URL("../../..", import.meta.url)) });
  }
  return built;
}

export async function freePort(): Promise<number> {
  const s = createServer().listen(0, "127.0.0.1");
  await once(s, "listening");
  const { port } = s.address() as { port: number };
  s.close();
  await once(s, "close");
  return port;
}

export const sleep = (ms: number): Promise<void> => new Promise((r) => setTimeout(r, ms));

process.setMaxListeners(0); // each server that is started has one

/** Options of tests in which the server decides: a machine that is busy may take longer than 50 ms. */
export const patient = { timeout: 2000 };

let late = 0;
let last = performance.now();
setInterval(() => {
  const now = performance.now();
  late += Math.max(now - last - 5, 0);
  last = now;
}, 5).unref();

/** How much this process was late since it began, in milliseconds: it did something else, or was not run. */
export const lateness = (): number => late + Math.max(performance.now() - last - 5, 0);

/** Waits until the server answers in time: a machine that is busy may take longer for the first calls. */
export async function ready<T extends Pick<Headgate, "peek">>(h: T): Promise<T> {
  for (let i = 0; i < 300 && (await h.peek("ready", perMinute(1))).source !== "server"; i++) await sleep(10);
  return h;
}

/** A server that can be stopped, killed and started again at the same port. */
export class Server {
  port = 0;
  #process: ChildProcess | undefined;

  static async start(...args: string[]): Promise<Server> {
    const s = new Server();
    s.port = await freePort();
    await s.start(...args);
    return s;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start(...args: string[]): Promise<void> {
    const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith("HEADGATE_")));
    this.#process = spawn(binary(), ["serve", "--listen", `127.0.0.1:${this.port}`, "--http-listen", "", "--grpc-listen", "", ...args],
      { env, stdio: "ignore" });
    const p = this.#process;
    process.once("exit", () => p.kill("SIGKILL"));
    for (let i = 0; i < 1000; i++) {
      if (await this.#answers()) return;
      await sleep(10);
    }
    throw new Error("the server does not listen");
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const s = createConnection(this.port, "127.0.0.1", () => s.write("PING\r\n"));
      const end = (ok: boolean): void => {
        s.destroy();
        resolve(ok);
      };
      s.on("data", () => end(true)).on("error", () => end(false)).setTimeout(1000, () => end(false));
    });
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#process!.kill(name);
  }

  async kill(): Promise<void> {
    const p = this.#process;
    this.#process = undefined;
    if (!p || p.exitCode !== null || p.signalCode !== null) return;
    p.kill("SIGKILL");
    await once(p, "exit");
  }
}

/** What is between a client and a server. While it is cut, nothing comes through, and nobody is told. */
export class Link {
  #cut = false;
  readonly #sockets = new Set<Socket>();
  readonly #server: TcpServer;

  private constructor(to: number) {
    this.#server = createServer((c) => {
      const up = createConnection(to, "127.0.0.1");
      for (const [a, b] of [[c, up], [up, c]] as const) {
        this.#sockets.add(a);
        a.on("data", (d) => b.write(d)).on("error", () => {}).on("close", () => {
          this.#sockets.delete(a);
          b.destroy();
        });
        if (this.#cut) a.pause();
      }
    });
  }

  static async to(port: number): Promise<Link> {
    const l = new Link(port);
    l.#server.listen(0, "127.0.0.1");
    await once(l.#server, "listening");
    return l;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What is cut for good are the connections that there are. New ones come through. */
  cut(forGood = false): void {
    this.#cut = !forGood;
    for (const s of this.#sockets) s.pause();
  }

  heal(): void {
    this.#cut = false;
    for (const s of this.#sockets) s.resume();
  }

  close(): void {
    for (const s of this.#sockets) s.destroy();
    this.#server.close();
  }
}
