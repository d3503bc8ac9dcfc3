import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

// LimitedError is that of a call for which there are not enough tokens.
export class LimitedError extends Error {
  constructor(limit, retryMs) {
    super(`over ${limit}, retry after ${retryMs} ms`);
    this.retryMs = retryMs; // below 0 no wait helps
  }
}

// stream passes an answer on as it comes, and charges what it took, however it ends:
// also by an error, or by a reader who has gone. Each chunk of the answer has its text, and the tokens
// that the call has taken up to there, the prompt's included.
export async function* stream(redis, { key, model, promptTokens, maxTokens }, answer) {
  // With an ID ioredis may repeat it: it holds once.
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
    if (hold !== null) await settle(redis, hold, took); // there is none if the policy answered without a leader
  }
}

// settle tells what a call took until it is answered: the first settlement stands, and to
// repeat it charges nothing.
async function settle(redis, hold, tokens) {
  for (const end = Date.now() + 30_000; ; await sleep(100)) {
    try {
      return await redis.call("RL.COMMIT", hold, "tokens", tokens);
    } catch (error) {
      if (error.message.startsWith("NOHOLD") || Date.now() > end) throw error;
    }
  }
}
