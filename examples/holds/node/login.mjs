import { randomUUID } from "node:crypto";

// LimitedError is that of an attempt after too many that failed.
export class LimitedError extends Error {
  constructor(retryMs) {
    super(`too many attempts, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // below 0 no wait helps
  }
}

// attempt checks a password, unless too many attempts have failed. Only that the password
// was right is told to Headgate: whatever else happens counts.
export async function attempt(redis, user, ip, verify) {
  // With an ID ioredis may repeat it: it counts once.
  const [allowed, , , retryMs, , , , , hold] = await redis.call(
    "RL.RESERVE", "login", "user", user, "ip", ip, "ID", randomUUID());
  if (!allowed) throw new LimitedError(retryMs);
  if (!(await verify())) return false;
  await redis.call("RL.CANCEL", hold).catch(() => {}); // unheard, it is an attempt too many
  return true;
}
