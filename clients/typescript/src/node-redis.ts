import { createClient, type RedisClientOptions } from "redis";
import { Headgate, type Options } from "./client.js";
import { NotSentError, ServerError } from "./errors.js";
import type { Transport } from "./transport.js";
import { Turns } from "./turns.js";

/** The part of a node-redis client that is used. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: { disableOfflineQueue?: boolean | undefined } | undefined;
  sendCommand(args: string[]): Promise<unknown>;
  on(event: string, f: (...args: any[]) => void): unknown;
  off(event: string, f: (...args: any[]) => void): unknown;
  listenerCount(event: string): number;
}

/**
 * Connects to a server, such as `redis://127.0.0.1:7379`, or to one of the nodes of a cluster, and returns at
 * once. Close the client at the end.
 */
export function connect(server: string | readonly string[] | RedisClientOptions, options: Options = {}): Headgate {
  const nodes = (typeof server === "string" || !Array.isArray(server) ? [server] : server) as readonly (string | RedisClientOptions)[];
  const turns = new Turns(nodes.length);
  const make = (): ReturnType<typeof createClient> => {
    const node = nodes[turns.at]!;
    const o = typeof node === "string" ? { url: node } : node;
    return createClient({
      ...o,
      RESP: 3,
      disableOfflineQueue: true,
      maintNotifications: "disabled",
      socket: { ...(o.socket as object), connectTimeout: 1000, reconnectStrategy: false },
    }) as ReturnType<typeof createClient>;
  };
  return new Headgate(new NodeRedisTransport(make(), { make, turns }), options);
}

/** Uses a connected client of the application, which stays open. A warning says which of its options hurt. */
export function fromClient(client: NodeRedisClient, options: Options = {}): Headgate {
  const log = (m: string): void => (options.log ?? ((t, level) => console[level](t)))(m, "warn");
  if (!client.options?.disableOfflineQueue) {
    log("headgate: disableOfflineQueue of node-redis is off: charges wait for a lost server and are sent late");
  }
  if (client.listenerCount("error") === 0) log("headgate: the node-redis client has no handler of 'error': an error ends the process");
  if (!client.isOpen) log("headgate: the node-redis client is not connected: call connect()");
  return new Headgate(new NodeRedisTransport(client), options);
}

interface Owned {
  connect(): Promise<unknown>;
  destroy(): void;
}

/** For how long a connection may be in the making before it is given up, in milliseconds. */
const slow = 1000;

class NodeRedisTransport implements Transport {
  #starting: Promise<void> | undefined;
  #made = 0;
  #closed = false;

  /** `own` is there if clients are made here. */
  constructor(private client: NodeRedisClient & Partial<Owned>, private readonly own?: { make: () => NodeRedisClient & Owned; turns: Turns }) {
    if (own) this.#connect(client as NodeRedisClient & Owned);
    else if (!client.isReady && client.isOpen) {
      this.#starting = new Promise((resolve) => {
        const done = (): void => {
          for (const event of ["ready", "error"]) client.off(event, done);
          this.#starting = undefined;
          resolve();
        };
        for (const event of ["ready", "error"]) client.on(event, done);
      });
    }
  }

  get starting(): Promise<void> | undefined {
    return this.own ? this.own.turns.starting : this.#starting;
  }

  #connect(client: NodeRedisClient & Owned): void {
    this.client = client;
    this.#made = performance.now();
    client.on("error", () => {}); // each call has its own error
    client.on("ready", () => this.own!.turns.made());
    // Once a connection is lost or not made, a client is of no more use.
    client.on("terminated", () => this.client === client && this.#next());
    client.connect().catch(() => {});
  }

  #next(): void {
    const { make, turns } = this.own!;
    const connect = (): void => {
      if (!this.#closed) this.#connect(make());
    };
    const pause = turns.lost();
    if (pause === 0) connect();
    else setTimeout(connect, pause).unref();
  }

  send(args: readonly string[]): Promise<unknown> {
    // In a queue a charge would be sent late.
    if (!this.client.isReady) return Promise.reject(new NotSentError("no connection to the server"));
    return this.client.sendCommand([...args]).catch((e: Error) => {
      const { name } = e.constructor;
      if (name === "SimpleError" || name === "BlobError" || name === "ErrorReply") throw new ServerError(e.message);
      if (name === "ClientClosedError" || name === "ClientOfflineError") throw new NotSentError(e.message);
      throw e;
    });
  }

  renew(): void {
    if (!this.own || !this.client.isOpen || (!this.client.isReady && performance.now() - this.#made < slow)) return;
    this.client.destroy!();
    this.#next();
  }

  close(): void {
    this.#closed = true;
    if (this.own && this.client.isOpen) this.client.destroy!();
  }
}
