// Package command defines commands. A [Spec] describes a command. A [Table] finds it by
// name, and tells clients about it (COMMAND). A [Handler] runs a [Call] of it. It knows
// no connection: a call's [Host] executes it, and its [Limiter] decides limits.
//
// # How to add a command
//
// Write a file with a function that returns the commands as a plain slice, in the room that
// they belong to (server/checks, server/keyspace; package server for commands about
// connections and the process). Add that function to the room's Commands or to
// Server.commandLists:
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
// The table has already checked the arity. A handler writes exactly one reply to call.W.
// All arguments are views that are valid until the handler returns. It runs on the thread
// of a loop, so it must take well under 100 µs. A command that may take longer copies its
// arguments and calls call.Host.Block. Its job runs on another thread: it must touch
// neither the call nor its session. It may use the engine, as RL.TOP does
// (call.Sess.Engine()). If a reply must wait for its commit whatever the durability, the
// handler sets call.Sync. A command about its connection is a func(*conn, args) of
// package server, wrapped in onConn.
package command
