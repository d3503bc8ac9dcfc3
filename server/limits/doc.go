// Package limits has the commands that bring their limit along in the call, each a
// handler of a [command.Call]: those of other servers (compat.go), Headgate's own
// chains (native.go), slots (slots.go) and counters (counter.go). Who decides is the
// call's [command.Limiter]. How limits are written, in arguments and in replies, is
// package wire, which server/checks and server/policies share.
package limits

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands are the commands of limits; totals is asked by RL.STATS.
func Commands(totals func() Totals) []command.Spec {
	return slices.Concat(compatCommands(), nativeCommands(), slotsCommands(), counterCommands(), statsCommands(totals))
}
