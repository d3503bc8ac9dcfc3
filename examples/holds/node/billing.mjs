import { setTimeout as sleep } from "node:timers/promises";

// charge charges the units of an order to an account, and returns whether it has as many.
// It asks until it is answered, or so many ms are over: under the order's name they are
// charged once, by whichever try, of whichever process. So an order whose outcome is not
// known is charged by calling it again.
export async function charge(redis, account, order, units, ms = 30_000) {
  for (const end = Date.now() + ms; ; await sleep(100)) {
    try {
      const [allowed] = await redis.call("RL.CHECK", "billing", "account", account, "COST", units, "ID", order);
      return allowed === 1;
    } catch (error) {
      if (!unknown(error) || Date.now() > end) throw error;
    }
  }
}

// unknown tells whether an error leaves open what became of a call: all do but the
// server's replies to one that is wrong.
const unknown = ({ name, message }) => name !== "ReplyError" || /^(CLUSTERDOWN|UNCERTAIN|TRYAGAIN|BUSY) /.test(message);
