import { randomUUID } from "node:crypto";

// LimitedError means that too many attempts have failed before.
export class LimitedError extends Error {
  constructor(retryMs) {
    super(`too many attempts, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // below 0: no wait helps
  }
}

// attempt checks a password, unless too many attempts have failed. It tells Headgate only
// that a password was right: in all other cases the attempt stays charged.
export async function attempt(redis, user, ip, verify) {
  // With an ID, ioredis can repeat the command, and it still counts only once.
  const [allowed, , , retryMs, , , , , hold] = await redis.call(
    "RL.RESERVE", "login", "user", user, "ip", ip, "ID", randomUUID());
  if (!allowed) throw new LimitedError(retryMs);
  if (!(await verify())) return false;
  await redis.call("RL.CANCEL", hold).catch(() => {}); // if this fails, the attempt counts
  return true;
}
