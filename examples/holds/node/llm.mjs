import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

// LimitedError means that a call wants more tokens than are left.
export class LimitedError extends Error {
  constructor(limit, retryMs) {
    super(`over ${limit}, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // below 0: no wait helps
  }
}

// stream passes an answer on while it comes. At its end, after an error, or when the reader
// leaves, it charges the tokens that the call has taken. Each chunk of the answer has its
// text, and the tokens that the call has taken up to there, with those of the prompt.
export async function* stream(redis, { key, model, promptTokens, maxTokens }, answer) {
  // With an ID, ioredis can repeat the command, and it still reserves only once.
  const [allowed, , , retryMs, , , limit, , hold] = await redis.call(
    "RL.RESERVE", "llm", "key", key, "model", model, "tokens", promptTokens + maxTokens, "ID", randomUUID());
  if (!allowed) throw new LimitedError(limit, retryMs);
  let took = 0;
  try {
    for await (const { text, tokens } of answer) {
      took = tokens;
      yield text;
    }
  } finally {
    if (hold !== null) await settle(redis, hold, took); // no hold if the policy answered without a leader
  }
}

// settle settles the tokens that a call took. It repeats the command until it gets an
// answer: only the first settlement charges.
async function settle(redis, hold, tokens) {
  for (const end = Date.now() + 30_000; ; await sleep(100)) {
    try {
      return await redis.call("RL.COMMIT", hold, "tokens", tokens);
    } catch (error) {
      if (error.message.startsWith("NOHOLD") || Date.now() > end) throw error;
    }
  }
}
