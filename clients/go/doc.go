// Package headgate asks a Headgate server whether calls may go on.
//
// A [Client] decides most calls of busy keys by itself, without a round trip: it takes a
// block of a limit's units from the server (RL.LEASE), spends them, and renews the block in
// the background. The server sets the units aside, so all processes together never admit
// more than the limit. Keys that are asked for rarely, and limits that cannot be leased,
// cost one RL.LIMIT a call.
//
// A process that ends without [Client.Close] loses what it holds for [Options.LeaseTTL]. A
// machine that is suspended with its process may spend its block late.
//
// The package needs a connection to the server, a [Doer]: go-redis and rueidis are one with
// a few lines. See the README.
package headgate
