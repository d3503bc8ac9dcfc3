import { Redis, type RedisOptions } from "ioredis";
import { Headgate, type Options } from "./client.js";
import { NotSentError, ServerError } from "./errors.js";
import type { Transport } from "./transport.js";
import { Turns } from "./turns.js";

/** What a limiter needs: nothing is queued, resent or retried, and a lost server is found soon. */
const safe = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableReadyCheck: false,
  connectTimeout: 1000,
  keepAlive: 10_000,
  protocol: 3,
  replyMapping: "resp3",
} as const satisfies RedisOptions;

/** The part of an ioredis client, or of a Cluster, that is used. */
export interface IoredisClient {
  readonly status: string;
  readonly options: object;
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<unknown>;
  on(event: string, f: (...args: any[]) => void): unknown;
  off(event: string, f: (...args: any[]) => void): unknown;
  listenerCount(event: string): number;
}

/**
 * Connects to a server, such as `redis://127.0.0.1:7379`, or to one of the nodes of a cluster, and returns at
 * once. Nodes differ in host and port only. Close the client at the end.
 */
export function connect(server: string | readonly string[] | RedisOptions, options: Options = {}): Headgate {
  const nodes = typeof server === "string" ? [server] : Array.isArray(server) ? (server as readonly string[]) : undefined;
  const turns = new Turns(nodes?.length ?? 1);
  const retryStrategy = (): number => {
    const pause = turns.lost();
    if (nodes && nodes.length > 1) {
      const { hostname, port } = new URL(nodes[turns.at]!);
      redis.options.host = hostname.replace(/^\[|\]$/g, "");
      redis.options.port = Number(port || 6379);
    }
    return pause;
  };
  const all = { ...safe, retryStrategy };
  const redis: Redis = nodes ? new Redis(nodes[0]!, all) : new Redis({ ...(server as RedisOptions), ...all });
  return new Headgate(new IoredisTransport(redis, { redis, turns }), options);
}

/** Uses a client of the application, which stays open. A warning says which of its options hurt. */
export function fromClient(redis: IoredisClient, options: Options = {}): Headgate {
  const log = (m: string): void => (options.log ?? ((t, level) => console[level](t)))(m, "warn");
  for (const w of warnings(redis)) log(`headgate: ${w}`);
  return new Headgate(new IoredisTransport(redis), options);
}

function warnings(redis: IoredisClient): string[] {
  const { redisOptions } = redis.options as { redisOptions?: RedisOptions }; // of a Cluster
  const o: RedisOptions = { ...redis.options, ...redisOptions };
  const of: string[] = [];
  if (o.enableOfflineQueue) of.push("enableOfflineQueue of ioredis is on: charges wait for a lost server and are sent late");
  if (o.autoResendUnfulfilledCommands) of.push("autoResendUnfulfilledCommands of ioredis is on: a charge can be sent twice");
  if (o.maxRetriesPerRequest !== 0) of.push(`maxRetriesPerRequest of ioredis is ${o.maxRetriesPerRequest}: charges are sent again, use 0`);
  if (redis.listenerCount("error") === 0) of.push("the ioredis client has no handler of 'error'");
  return of;
}

/** For how long a connection may be in the making before it is given up, in milliseconds. */
const slow = 1000;

class IoredisTransport implements Transport {
  #starting: Promise<void> | undefined;
  #connected = 0;

  /** `own` is there if the client was made here. */
  constructor(private readonly redis: IoredisClient, private readonly own?: { redis: Redis; turns: Turns }) {
    redis.on("connect", () => (this.#connected = performance.now()));
    if (own) {
      redis.on("error", () => {}); // each call has its own error
      redis.on("ready", () => own.turns.made());
    }
    if (own || redis.status === "ready") return;
    if (redis.status === "wait") void redis.connect().catch(() => {});
    this.#starting = new Promise((resolve) => {
      const done = (): void => {
        for (const event of ["ready", "close", "end"]) redis.off(event, done);
        this.#starting = undefined;
        resolve();
      };
      for (const event of ["ready", "close", "end"]) redis.on(event, done);
    });
  }

  get starting(): Promise<void> | undefined {
    return this.own ? this.own.turns.starting : this.#starting;
  }

  send(args: readonly string[]): Promise<unknown> {
    // In a queue a charge would be sent late.
    if (this.redis.status !== "ready") return Promise.reject(new NotSentError(`no connection to the server: ${this.redis.status}`));
    const [name, ...rest] = args;
    return this.redis.call(name!, ...rest).catch((e: Error) => {
      if (e.name === "ReplyError") throw new ServerError(e.message);
      if (e.message.startsWith("Stream isn't writeable")) throw new NotSentError(e.message);
      throw e;
    });
  }

  renew(): void {
    const { status } = this.redis;
    // A peer that hangs does not answer to the end of a connection either.
    if (status === "ready" || (status === "connect" && performance.now() - this.#connected > slow)) this.own?.redis.stream.destroy();
  }

  close(): void {
    this.own?.redis.disconnect();
  }
}
