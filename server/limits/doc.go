// Package limits has the commands that ask a limit, each a handler of a
// [command.Call]: those of other servers (compat.go), Headgate's own chains
// (native.go), leases (slots.go), counters (counter.go), policies (book.go,
// check.go, policy.go), holds (reserve.go, settle.go), and what an operator asks about all of them
// (inspect.go). Who decides is the call's [command.Limiter]. A [Trial] decides on
// policies without a server.
package limits

import (
	"slices"

	"github.com/headgate-io/headgate/server/command"
)

// Commands are the commands of limits; totals is asked by RL.STATS, and book has
// the policies.
func Commands(totals func() Totals, book *Book) []command.Spec {
	return slices.Concat(compatCommands(), nativeCommands(), slotsCommands(), counterCommands(), inspectCommands(totals, book),
		checkCommands(book), descriptorCommands(book), holdCommands(book), policyCommands(book), overrideCommands(book))
}
