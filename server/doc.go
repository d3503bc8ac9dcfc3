// Package server is the front for the Redis protocol. It accepts connections, parses
// commands, runs them against an engine and writes the replies.
//
// [New] makes a [Server] from a [Config]. [Server.Serve] and [Server.ServeStreams] accept
// connections. [Server.Configure] changes a [Runtime] configuration, and [Server.Shutdown]
// ends the server in good order. [Server.Stats] and [Server.Decisions] return its counts.
// [Server.Caller] runs commands without a socket, for other fronts. [Server.Partition]
// connects the server to replication: it says who decides, and reports the commits that
// replies wait for.
//
// Inside, a connection (conn) is a state machine without a socket: it takes bytes, runs
// commands and returns bytes. On Linux, event loops (loop) drive plain TCP connections.
// Two goroutines (stream) drive each other connection. A lane holds what the connections
// of one driver thread use while they run, for example the command.Call. Commands about
// connections, the process and the cluster are in the files cmd_*.go. Commands about
// keys, values, limits and scripts do not know connections. They are in server/keyspace,
// server/data, server/limits, server/checks, server/policies and server/scripts.
// Subscriptions are in server/pubsub. Package server/command says how to add a command.
//
// # Concurrency
//
// The methods of Server are safe for concurrent use. A connection and its lane belong to
// one driver thread; other goroutines reach them by posting functions.
//
// # Caveats
//
// Three features of Redis are missing: ACL users, keyspace notifications, and the
// invalidation messages for clients that cache what they read. The commands of these
// features exist, and give answers with which clients work.
package server
