import { Redis } from "ioredis";

// connect returns a client of one server, or of a cluster. Of a cluster, name some nodes
// as { host, port }: the client finds the others and follows the leader.
export function connect(...nodes) {
  const options = { protocol: 2, commandTimeout: 1000 };
  return nodes.length === 1 ? new Redis({ ...nodes[0], ...options }) : new Redis.Cluster(nodes, { redisOptions: options });
}
