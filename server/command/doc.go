// Package command defines commands. A [Spec] describes a command. A [Table] finds a
// command by its name, and describes commands to clients (COMMAND). A [Handler] runs a
// [Call] of a command. The package does not know connections. It reaches its
// surroundings through two interfaces: a call's [Host] does what concerns the connection
// and the server, and the call's [Limiter] decides limits.
//
// # How to add a command
//
// Write a file with a function that returns the commands as a slice. Put it into the
// package that the commands belong to (server/checks, server/keyspace; package server for
// commands about connections and the process). Add that function to the package's Commands
// or to Server.commandLists:
//
//	func limitCommands() []command.Spec {
//		return []command.Spec{{
//			Name: "cl.throttle", Arity: -5,
//			Flags: command.Write | command.DenyOOM | command.Fast | command.Limit,
//			Keys: command.Keys{First: 1, Last: 1, Step: 1}, Categories: command.CatLimiter,
//			Group: "limiter", Complexity: "O(1)",
//			Summary: "…", Syntax: "key max-burst count period [quantity]",
//			Handler: throttle,
//		}}
//	}
//
//	func throttle(call *command.Call) {
//		d, err := call.Limits.Decide(call.Now, call.Args[1], limit, cost, &options)
//		if err != nil {
//			call.Fail(err)
//			return
//		}
//		call.Decided(d.OK)
//		call.W.Array(5)
//		call.W.Int(…)
//	}
//
// The table checks the arity before the handler runs. A handler writes exactly one reply to
// call.W. All arguments are views that are valid until the handler returns. The handler
// runs on the thread of a loop, so it must take well under 100 µs. A command that may take
// longer copies its arguments and calls call.Host.Block with a job, which runs on another
// thread. The job must not use the call or the call's session. It may use the engine of
// the call's group (call.Sess.Engine()). A room whose command is about all groups of the
// node has their engines, as checks.Homes and scripts.Config do.
//
// If a reply must wait for its commit even when the server's durability does not demand
// it, the handler sets call.Sync. A command about its connection is a func(*conn, args)
// of package server, wrapped in onConn.
//
// # Locks in transactions and scripts
//
// A transaction or a script may have locked the whole table before the handler runs. A walk
// over the table would then wait forever for these locks, unless the walk uses call.Sess.
// KEYS shows both cases: call.Sess if call.InExec is set, and a new session otherwise. A
// simple walk of the engine, such as EndlessCounters, suits only commands with the flag
// Local, or with NoScript and NoMulti: such a command never runs under these locks.
package command
