// Package limits holds the commands that have their limits as arguments. Each is a handler
// of a [command.Call]: those of other servers (compat.go), Headgate's own chains
// (native.go), slots (slots.go) and counters (counter.go). The call's [command.Limiter]
// decides. Package wire, which server/checks and server/policies also use, reads limits in
// arguments and writes them in replies.
package limits

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands returns the commands of limits. RL.STATS calls totals.
func Commands(totals func() Totals) []command.Spec {
	return slices.Concat(compatCommands(), nativeCommands(), slotsCommands(), counterCommands(), statsCommands(totals))
}
