// Package headgate asks a Headgate server whether calls may go on.
//
// A [Client] decides most calls of busy keys by itself, without a round trip: it takes a
// block of a limit's units from the server (RL.LEASE), spends them, and renews the block in
// the background. The server sets the units aside, so all processes together never admit
// more than the limit. Keys that are asked for rarely, and limits that cannot be leased,
// cost one RL.LIMIT per call.
//
// Calls are answered without the server too. A call waits for the server at most 50 ms, and
// after five failures in a row no call waits. [OnFailure] of a limit decides then. By
// default each process admits its share of the limit, and what it has admitted is charged
// when the server is back. An error is always a mistake of the caller, or its cancelled
// context.
//
// A process that ends without [Client.Close] loses what it holds for [Options.LeaseTTL]. A
// machine that is suspended with its process may spend its block late.
//
// The package needs a connection to the server, a [Doer]. The modules goredis and rueidis,
// below this one, make it.
package headgate
