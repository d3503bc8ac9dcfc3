import type { Headgate } from "./client.js";
import { Counter } from "./hits.js";
import { Limit } from "./limit.js";

interface ThrottlerStorageRecord {
  totalHits: number;
  timeToExpire: number;
  isBlocked: boolean;
  timeToBlockExpire: number;
}

/** A `storage` of @nestjs/throttler. */
export class HeadgateThrottlerStorage {
  readonly #counter: Counter;

  constructor(private readonly headgate: Headgate) {
    this.#counter = new Counter(headgate);
  }

  async increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string): Promise<ThrottlerStorageRecord> {
    const name = `throttler:${throttlerName}:${key}`;
    // A block as long as the window ends with it. Another one has a key of its own, and ends the hits.
    const block = blockDuration > 0 && blockDuration !== ttl ? new Limit(1, blockDuration, { leased: false }) : undefined;
    const [{ hits, resetAfter }, blocked] = await Promise.all([
      this.#counter.hit(name, ttl),
      block && this.headgate.despite(this.headgate.peek(`${name}:block`, block)),
    ]);
    let left = hits > limit ? resetAfter : 0;
    if (block && !blocked!.allowed) {
      left = blocked!.retryAfter;
      await this.#counter.giveBack(name, ttl);
    } else if (block && left > 0) {
      left = blockDuration;
      await this.headgate.despite(this.headgate.allow(`${name}:block`, block));
      // Without the server the hits stay, and end with their window.
      await this.#counter.reset(name).catch(() => {});
    }
    return { totalHits: hits, timeToExpire: Math.ceil(resetAfter / 1000), isBlocked: left > 0, timeToBlockExpire: Math.ceil(left / 1000) };
  }
}
