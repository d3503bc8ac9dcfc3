// Package server is the Redis-protocol front: it accepts connections, parses
// commands, runs them against an engine and writes the replies.
//
// [New] makes a [Server] from a [Config]; [Server.Serve] and
// [Server.ServeStreams] accept connections, [Server.Configure] changes a
// [Runtime] configuration, [Server.Shutdown] ends it in good order,
// [Server.Stats] and [Server.Decisions] say what it has done.
// [Server.Caller] runs commands without a socket, for other fronts.
// [Server.Partition] is the seam of replication: it says who decides, and
// completes the commits that replies wait for.
//
// Inside, a connection (conn) is a state machine without sockets: bytes in,
// commands, bytes out. Plain TCP on Linux is driven by event loops (loop),
// everything else by two goroutines for each connection (stream). What the
// connections of one driver thread share while they run is a lane, its
// command.Call among it. Commands about connections, the process and the cluster
// are plain slices in the files cmd_*.go; those about keys, values, limits and scripts
// know no connection and live in server/keyspace, server/data, server/limits,
// server/checks, server/policies and server/scripts. What connections have asked to hear is in server/pubsub. Package
// server/command says how to add a command.
//
// # Concurrency
//
// The methods of Server are safe for concurrent use. A connection and its lane
// belong to one driver thread; others reach them by posting functions.
//
// # Caveats
//
// ACL users and keyspace notifications do not exist, and nothing that a client
// reads may be cached by it; the commands around them are answered as clients need
// them to be.
package server
