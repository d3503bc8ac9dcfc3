import { BlockList, isIP, isIPv6 } from "node:net";
import { HeadgateError } from "./errors.js";

/** The name of an address as a key: an IPv4 address, or the /64 of an IPv6 address. */
export function addressKey(address: string): string {
  const bare = address.replace(/%.*$/, "");
  if (!isIPv6(bare)) return bare;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare);
  if (mapped) return mapped[1]!;
  const [head = "", tail] = bare.toLowerCase().split("::") as [string, string?];
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const after = tail === "" ? [] : tail.split(":");
    const width = after.length + (after.at(-1)?.includes(".") ? 1 : 0);
    while (groups.length + width < 8) groups.push("0");
    groups.push(...after);
  }
  // The shortest form, as the other languages write it: zeros at the end are part of ::.
  const net = groups.slice(0, 4).map((g) => parseInt(g, 16).toString(16));
  while (net.at(-1) === "0") net.pop();
  return `${net.join(":")}::/64`;
}

/** Finds out the addresses of clients behind trusted proxies. */
export class Clients {
  readonly #trusted: BlockList | undefined;

  /** `trusted` are addresses and networks such as `10.0.0.0/8`. An empty list says that there is no proxy. */
  constructor(trusted: readonly string[] | undefined) {
    if (!trusted) return;
    this.#trusted = new BlockList();
    for (const t of trusted) {
      const [address = "", bits] = t.split("/");
      const family = isIP(address) === 6 ? "ipv6" : "ipv4";
      if (!isIP(address)) throw new HeadgateError("CONFIG", `headgate: trustedProxies has '${t}', which is no address and no network`);
      if (bits === undefined) this.#trusted.addAddress(address, family);
      else this.#trusted.addSubnet(address, Number(bits), family);
    }
  }

  /** The address of the client, by that of the connection and X-Forwarded-For. */
  of(connection: string | undefined, forwarded: string | undefined): string {
    let address = connection ?? "";
    if (forwarded === undefined) return address;
    if (!this.#trusted) {
      throw new HeadgateError("CONFIG", "headgate: a request has X-Forwarded-For, and trustedProxies does not say whether to believe it. " +
        "Name the addresses of your proxies, or set an empty list if there are none");
    }
    const hops = forwarded.split(",").map((h) => h.trim());
    while (hops.length > 0 && this.#isTrusted(address)) {
      const hop = hops.pop()!;
      if (!isIP(hop)) break;
      address = hop;
    }
    return address;
  }

  #isTrusted(address: string): boolean {
    const bare = address.replace(/^::ffff:(?=\d+\.)/i, "");
    const family = isIP(bare);
    return family !== 0 && this.#trusted!.check(bare, family === 6 ? "ipv6" : "ipv4");
  }
}
