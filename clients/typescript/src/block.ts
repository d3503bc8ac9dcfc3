import type { Grant } from "./decision.js";
import { memory } from "./denials.js";

/**
 * Block is what the client holds of one key: units to spend until a deadline. The methods keep the
 * rules by which the client never spends more than the server has set aside:
 *
 * - deadline counts from before the request was sent, refill from when its reply came. Both are
 *   shorter, or slower, by 1/1000: so much may two clocks differ.
 * - Nothing becomes due between a request and its reply. If the reply does not come, the old
 *   refill does not go on.
 * - Units that callers waited for never enter the block.
 *
 * Instants are milliseconds. The time of a refill is in whole nanoseconds, to divide exactly.
 */
export class Block {
  /** Units to spend now. */
  stock = 0;
  /** Units that `all` took, and may put back. */
  lent = 0;
  /** How often a deadline has passed: what was lent before is gone. */
  lapses = 0;
  deadline = 0;

  /** Units that become due evenly from began, for lasts. */
  refill = 0;
  /** The units of refill that are part of stock. */
  taken = 0;
  began = 0;
  lasts = 0;
  /** Stock and refill when the reply came. */
  size = 0;
  /** Whether the server granted less than was wanted. */
  short = false;
  /** Units of the limit at the server, when the reply came. */
  left = 0;
  answered = 0;

  /** settle brings what is due into the stock, and forgets the block at its deadline. */
  settle(now: number): void {
    if (now >= this.deadline) {
      if (this.stock !== 0 || this.lent !== 0 || this.refill !== 0) {
        this.stock = this.lent = this.refill = this.taken = 0;
        this.lapses++;
      }
      return;
    }
    if (this.refill > this.taken && now > this.began) {
      const past = this.past(now);
      const due = past < this.lasts ? mulDiv(this.refill, past, this.lasts)[0] : this.refill;
      if (due > this.taken) {
        this.stock += due - this.taken;
        this.taken = due;
      }
    }
  }

  /** spend takes units of a settled block. It reports whether there were enough. */
  spend(units: number): boolean {
    if (this.stock < units) return false;
    this.stock -= units;
    return true;
  }

  /** held ends the refill of a settled block, and returns what the client tells the server that it has. */
  held(): number {
    this.refill = this.taken = 0;
    return this.stock + this.lent;
  }

  /** grant puts the reply to a request into a settled block. */
  grant(g: Grant, sent: number, now: number, need: number, want: number): void {
    const units = g.decision.allowed ? g.granted - need : g.granted;
    this.short = units + g.refill < want;
    this.stock += Math.max(units, 0);
    this.deadline = sent + g.ttl - g.ttl / 1000;
    this.refill = g.refill;
    this.taken = 0;
    this.began = now;
    this.lasts = g.refillFor * 1_001_000 + 1;
    this.size = this.stock + this.refill;
    this.left = g.decision.remaining;
    this.answered = now;
  }

  /** low reports whether it is time to renew a settled block. */
  low(now: number): boolean {
    if (this.refill === 0) return this.stock * 10 <= this.size * 4 && !(this.short && this.left === 0);
    const past = this.past(now);
    if (this.short) {
      // A refill that is short is not asked for more often than needed: the client waits until it loses
      // less than a quarter of the unit that is becoming due.
      return past >= this.lasts * 0.8 ||
        (past >= this.lasts * shortAt && mulDiv(this.refill, past, this.lasts)[1] <= this.lasts / 4);
    }
    return past >= this.lasts * 0.5 || (this.stock + this.refill - this.taken) * 10 <= this.size * 4;
  }

  /**
   * due returns how long it takes until a settled block without enough units has them, or is renewed.
   * It is 0 if the server must be asked now: the limit had enough left, or what is known is too old.
   */
  due(now: number, units: number): number {
    if (!this.short || this.left >= units || this.refill === 0 || now - this.answered >= memory) return 0;
    let until = this.lasts * shortAt;
    if (units <= this.stock + this.refill - this.taken) {
      until = Math.min(until, mulDiv(this.taken + units - this.stock, this.lasts, this.refill)[0] + 1);
    }
    return Math.max(this.began + until / 1e6 - now, 0);
  }

  private past(now: number): number {
    return Math.floor((now - this.began) * 1e6);
  }
}

/** The part of the time of a short refill after which a block is renewed. */
const shortAt = 0.6;

/** mulDiv returns the whole part of a * b / c, and what is left over. */
export function mulDiv(a: number, b: number, c: number): [number, number] {
  const x = a * b;
  if (x <= Number.MAX_SAFE_INTEGER) {
    const rem = x % c;
    return [(x - rem) / c, rem];
  }
  const n = BigInt(a) * BigInt(b);
  return [Number(n / BigInt(c)), Number(n % BigInt(c))];
}
