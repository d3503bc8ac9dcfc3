// The server under test, and clients of it.
import Redis from "ioredis";
import { createClient } from "redis";

const host = process.env.DROPIN_HOST;
const port = Number(process.env.DROPIN_PORT);

// withIORedis runs body with a client on an empty server.
export async function withIORedis(body, options = {}) {
  const client = new Redis({ host, port, ...options });
  try {
    await client.flushall();
    await body(client);
  } finally {
    client.disconnect();
  }
}

export async function withNodeRedis(body) {
  const client = createClient({ socket: { host, port } });
  await client.connect();
  try {
    await client.flushAll();
    await body(client);
  } finally {
    await client.disconnect();
  }
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
