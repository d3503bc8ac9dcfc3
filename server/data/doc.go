// Package data has Redis's commands on data types, each a handler of a
// [command.Call] that visits keys through its session: strings (strings.go, with
// their options in expiry.go), counters (counters.go) and several strings at
// once (multi.go). Commands on keys, whatever they hold, are in package keyspace.
//
// Replies, options and error texts are those of Redis 7.0.
package data

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands are the commands on data types.
func Commands() []command.Spec {
	return slices.Concat(stringCommands(), manyStringCommands(), counterCommands())
}
