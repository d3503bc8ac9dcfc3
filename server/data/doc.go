// Package data has Redis's commands on data types. Each command is a handler of a
// [command.Call], which visits keys through the call's session. Strings are in strings.go,
// the options of their expiry in expiry.go, counters in counters.go, and commands on
// several strings in multi.go. Hashes, sets, sorted sets and lists have files with their
// names. Code that they share is in visit.go, scan.go (HSCAN, SSCAN, ZSCAN), sample.go
// (random entries) and score.go. Commands on keys of any type are in package keyspace.
//
// Replies, options and error texts are those of Redis 7.0.
package data

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands returns the commands on data types.
func Commands() []command.Spec {
	return slices.Concat(
		stringCommands(), manyStringCommands(), counterCommands(),
		hashCommands(),
		setCommands(), setAlgebraCommands(),
		sortedSetCommands(), sortedSetRangeCommands(),
		listCommands(), listMoveCommands(), listPositionCommands(),
	)
}
