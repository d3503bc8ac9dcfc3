import { setTimeout as sleep } from "node:timers/promises";

// LimitedError is that of an export for which there is no slot, or no quota.
export class LimitedError extends Error {
  constructor(limit, retryMs) {
    super(`over ${limit}, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // at most, as a slot may be free sooner; below 0 no wait helps
  }
}

// run does an export in a slot, which it keeps for as long as that takes; ttlMs is that of
// the policy. job names it: a job that is run again, as its process has died, has its slot
// and its place in the quota still. work is given a signal that tells that the slot was lost.
export async function run(redis, tenant, job, ttlMs, work) {
  const hold = await take(redis, tenant, job);
  const done = new AbortController();
  const lost = new AbortController();
  const renewing = renew(redis, tenant, job, ttlMs, done.signal, lost);
  try {
    return await work(lost.signal);
  } finally {
    done.abort();
    await renewing; // behind the commit it would take a slot anew
    await redis.call("RL.COMMIT", hold).catch(() => {}); // unheard, the slot ends by itself
  }
}

// renew keeps the slot of a job until it is done, or the slot is lost.
async function renew(redis, tenant, job, ttlMs, done, lost) {
  for (let renewed = Date.now(); ; ) {
    await sleep(ttlMs / 4, undefined, { signal: done }).catch(() => {});
    if (done.aborted) return;
    try {
      await take(redis, tenant, job);
      renewed = Date.now();
    } catch (error) {
      if (error instanceof LimitedError || Date.now() - renewed > ttlMs) return lost.abort(error);
    }
  }
}

// take takes the slot of a job, or gives it its time anew.
async function take(redis, tenant, job) {
  const [allowed, , , retryMs, , , limit, , hold] = await redis.call("RL.CHECK", "exports", "tenant", tenant, "ID", job);
  if (!allowed) throw new LimitedError(limit, retryMs);
  return hold;
}
