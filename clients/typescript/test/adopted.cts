// Puts fastifyStore in the place of the Redis store in the tests of @fastify/rate-limit, which runs
// them with this file loaded first: see adopted.test.ts.
import Module = require("node:module");
import { beforeEach } from "node:test";
import type * as forFastify from "../dist/cjs/fastify-rate-limit.js";
import type * as forIoredis from "../dist/cjs/ioredis.js";

type Load = (request: string, parent: { filename?: string } | undefined, isMain: boolean) => unknown;
const loader = Module as unknown as { _load: Load };
const load = loader._load;
const port = Number(process.env.ADOPTED_PORT);

if (port) {
  const { fastifyStore } = require("../dist/cjs/fastify-rate-limit.js") as typeof forFastify;
  const { connect } = require("../dist/cjs/ioredis.js") as typeof forIoredis;
  const { Redis } = require("ioredis") as typeof import("ioredis");
  const headgate = connect(`redis://127.0.0.1:${port}`, { timeout: 2000 });

  /** The Redis store of the library, with what it is given. */
  function Store(continueExceeding: boolean, exponentialBackoff: boolean, _redis: unknown, nameSpace?: string): object {
    const of = fastifyStore(headgate, nameSpace);
    return new of({ continueExceeding, exponentialBackoff });
  }
  /** The client of a test, which empties the server after it. */
  class Client extends Redis {
    constructor(options: object) {
      super({ ...options, port });
    }
  }
  loader._load = (request, parent, isMain) => {
    if (request === "./store/RedisStore") return Store;
    return request === "ioredis" && parent?.filename?.endsWith("redis-rate-limit.test.js") ? Client : load(request, parent, isMain);
  };
  // Windows begin at multiples of their length, which is a second in these tests.
  beforeEach(() => new Promise((r) => setTimeout(r, 1005 - (Date.now() % 1000))));
}
