import { setTimeout as sleep } from "node:timers/promises";

// LimitedError means that there is no slot or no quota for an export.
export class LimitedError extends Error {
  constructor(limit, retryMs) {
    super(`over ${limit}, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // a slot may be free sooner; below 0: no wait helps
  }
}

// run runs an export in a slot, and keeps the slot while the export runs. ttlMs is the ttl of
// the policy. job is the name of the export: if its process dies and the job is run again, it
// still has its slot and is not charged again. work gets a signal that aborts if the slot is
// lost.
export async function run(redis, tenant, job, ttlMs, work) {
  const hold = await take(redis, tenant, job);
  const done = new AbortController();
  const lost = new AbortController();
  const renewing = renew(redis, tenant, job, ttlMs, done.signal, lost);
  try {
    return await work(lost.signal);
  } finally {
    done.abort();
    await renewing; // a renewal after the commit would take a new slot
    await redis.call("RL.COMMIT", hold).catch(() => {}); // if this fails, the slot ends after its ttl
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

// take takes a slot for a job, or renews the slot that the job has.
async function take(redis, tenant, job) {
  const [allowed, , , retryMs, , , limit, , hold] = await redis.call("RL.CHECK", "exports", "tenant", tenant, "ID", job);
  if (!allowed) throw new LimitedError(limit, retryMs);
  return hold;
}
