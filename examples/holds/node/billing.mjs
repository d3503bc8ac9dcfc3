import { setTimeout as sleep } from "node:timers/promises";

// charge charges the units of an order to an account, and returns whether the account had
// enough. It repeats the call until it gets an answer or the time ms is over. Under the name
// of the order the units are charged only once, even by several processes. So if the outcome
// of an order is not known, call charge again.
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

// unknown reports whether the outcome of a call is unknown after this error. That is true
// for all errors except those with which the server refuses a wrong call.
const unknown = ({ name, message }) => name !== "ReplyError" || /^(CLUSTERDOWN|UNCERTAIN|TRYAGAIN|BUSY) /.test(message);
