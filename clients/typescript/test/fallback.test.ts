import assert from "node:assert/strict";
import { test } from "node:test";
import { addressKey, Headgate, NotSentError, perSecond } from "../dist/esm/index.js";
import { Lru } from "../dist/esm/fallback.js";
import { Clock, settle } from "./virtual.js";

test("the entry that was used longest ago goes first", () => {
  const l = new Lru<number>(100);
  // What a list of keys does, slowly.
  const model: string[] = [];
  let seed = 1;
  const next = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;
  for (let i = 0; i < 20_000; i++) {
    const key = String(next(150));
    const at = model.indexOf(key);
    switch (next(4)) {
      case 0:
        l.delete(key);
        if (at >= 0) model.splice(at, 1);
        break;
      case 1:
        assert.equal(l.use(key) !== undefined, at >= 0);
        if (at >= 0) model.push(...model.splice(at, 1));
        break;
      default:
        l.put(key, i);
        if (at >= 0) model.splice(at, 1);
        else if (model.length === 100) model.shift();
        model.push(key);
    }
    assert.equal(l.size, model.length);
  }
  for (let i = 0; i < 150; i++) assert.equal(l.get(String(i)) !== undefined, model.includes(String(i)));
});

test("one key that is used all the time stays fast", () => {
  const l = new Lru<number>(10_000);
  for (let i = 0; i < 10_000; i++) l.put(String(i), i);
  const began = performance.now();
  for (let i = 0; i < 100_000; i++) l.use(String(i % 2));
  assert.ok(performance.now() - began < 1000, `${performance.now() - began} ms`);
});

test("addresses are keys: IPv6 by its /64", () => {
  for (const [address, key] of [
    ["192.0.2.1", "192.0.2.1"], ["::ffff:192.0.2.1", "192.0.2.1"], ["2001:db8::1", "2001:db8::/64"],
    ["2001:0db8:0000:0000:1:2:3:4", "2001:db8::/64"], ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"], ["::1", "::/64"],
    ["fe80::1%eth0", "fe80::/64"], ["2001:DB8:0:1::", "2001:db8:0:1::/64"], ["64:ff9b::192.0.2.1", "64:ff9b::/64"],
  ]) assert.equal(addressKey(address!), key);
});

test("while the breaker is open, blocks are spent and nothing is returned", async () => {
  const clock = new Clock();
  const sent: string[] = [];
  let up = true;
  const h = new Headgate({
    send: async (args) => {
      sent.push(args[0]!);
      if (!up) throw new NotSentError("away");
      return args[0] === "RL.LEASE" ? [1, 1000, 900, 0, 100, 0, 101, 2000, 0, 0, 4] : [1, 1000, 900, 0, 100, 0];
    },
  }, { runtime: clock, log: () => {} });
  for (let i = 0; i < 15; i++) await h.allow("k", perSecond(1000));
  assert.equal(h.tryAllow("k", perSecond(1000))!.source, "lease");
  up = false;
  for (let i = 0; i < 5; i++) await h.allow(`other${i}`, perSecond(1000));
  assert.equal(h.state, "open");
  assert.equal(h.tryAllow("k", perSecond(1000))!.source, "lease");
  sent.length = 0;
  await clock.advance(5000, true);
  assert.deepEqual(new Set(sent), new Set(["PING"]), "a block that nobody uses ends at its deadline");
  const d = h.tryAllow("k", perSecond(1000))!;
  assert.deepEqual([d.source, d.remaining], ["fallback", 249], "a share of 4 holders");
  void h.close();
  await settle();
  assert.deepEqual(new Set(sent), new Set(["PING"]));
});
