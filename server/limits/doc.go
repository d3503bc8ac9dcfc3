// Package limits has the commands whose limits are arguments. Each is a handler of a
// [command.Call]: those of other servers (compat.go), Headgate's own chains (native.go),
// slots (slots.go) and counters (counter.go). The call's [command.Limiter] decides.
// Package wire reads limits in arguments and writes them in replies; server/checks and
// server/policies use it too.
package limits

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands returns the commands of limits. RL.STATS calls totals, and commands about leases
// of policies call policies.
func Commands(totals func() Totals, policies PolicyLeases) []command.Spec {
	return slices.Concat(compatCommands(), nativeCommands(), leaseCommands(policies), slotsCommands(), counterCommands(), statsCommands(totals))
}
