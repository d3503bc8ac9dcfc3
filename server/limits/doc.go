// Package limits has the commands that ask a limit, each a handler of a
// [command.Call]: those of other servers (compat.go), Headgate's own chains
// (native.go), leases (slots.go), counters (counter.go), and what an operator
// asks about all of them (inspect.go). Who decides is the call's
// [command.Limiter].
package limits

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands are the commands of limits; totals is asked by RL.STATS.
func Commands(totals func() Totals) []command.Spec {
	return slices.Concat(compatCommands(), nativeCommands(), slotsCommands(), counterCommands(), inspectCommands(totals))
}
