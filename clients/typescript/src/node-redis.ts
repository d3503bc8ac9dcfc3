import { createClient, type RedisClientOptions } from "redis";
import { Headgate, type Options } from "./client.js";
import { NotSentError, ServerError } from "./errors.js";
import type { Transport } from "./transport.js";

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

/** Connects to a server, such as `redis://127.0.0.1:7379`, and returns at once. Close the client at the end. */
export function connect(server: string | RedisClientOptions, options: Options = {}): Headgate {
  const o = typeof server === "string" ? { url: server } : server;
  const make = (): ReturnType<typeof createClient> => {
    const client = createClient({
      ...o,
      RESP: 3,
      disableOfflineQueue: true,
      maintNotifications: "disabled",
      socket: { ...(o.socket as object), connectTimeout: 1000, reconnectStrategy: () => 200 + 200 * Math.random() },
    });
    client.on("error", () => {}); // each call has its own error
    client.connect().catch(() => {});
    return client as ReturnType<typeof createClient>;
  };
  return new Headgate(new NodeRedisTransport(make(), make), options);
}

/** Uses a connected client of the application, which stays open. A warning says which of its options hurt. */
export function fromClient(client: NodeRedisClient, options: Options = {}): Headgate {
  const log = options.log ?? ((m: string): void => console.warn(m));
  if (!client.options?.disableOfflineQueue) {
    log("headgate: disableOfflineQueue of node-redis is off: charges wait for a lost server and are sent late");
  }
  if (client.listenerCount("error") === 0) log("headgate: the node-redis client has no handler of 'error': an error ends the process");
  if (!client.isOpen) log("headgate: the node-redis client is not connected: call connect()");
  return new Headgate(new NodeRedisTransport(client), options);
}

/** For how long a connection may be in the making before it is given up, in milliseconds. */
const slow = 1000;

class NodeRedisTransport implements Transport {
  starting: Promise<void> | undefined;
  #made = performance.now();

  constructor(private client: NodeRedisClient & { destroy?: () => void }, private readonly make?: () => NodeRedisClient) {
    if (client.isReady || !client.isOpen) return;
    this.starting = new Promise((resolve) => {
      const done = (): void => {
        for (const event of ["ready", "error"]) client.off(event, done);
        this.starting = undefined;
        resolve();
      };
      for (const event of ["ready", "error"]) client.on(event, done);
    });
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
    if (!this.make || (!this.client.isReady && performance.now() - this.#made < slow)) return;
    this.#made = performance.now();
    if (this.client.isOpen) this.client.destroy?.();
    this.client = this.make();
  }

  close(): void {
    if (this.make && this.client.isOpen) this.client.destroy?.();
  }
}
