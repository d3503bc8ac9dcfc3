// Package oracle judges histories of calls to a limiter. Did it hand out more than its limits allow, lose an answer it
// had given, forget what it had not, or answer late?
//
// Every check is one-sided: it reports only what no correct limiter could have shown. It assumes that a call took
// effect at some time between its start and its end. A call without an answer may take effect at any time or never. The
// limiter's clock runs at most clockSlack fast.
//
//   - Budgets bounds what was admitted, for every algorithm, in histories of any length.
//   - Linear searches, key by key, for an order of all calls that explains every answer (porcupine).
//   - Slots bounds the slots held at one time.
//   - Versions checks that versions of policies are made once, and what answers and HISTORY say of them.
//   - Counters bounds what checks of policies were admitted, limit by limit, and explains what each answer and each counter
//     says; LinearChecks searches for an order of those whose every answer is durable, changes that reset included.
//   - Bills checks that calls which are repeated under a name, and holds, are charged once, and answered the same.
//   - Gateways checks that questions of gateways, who ask once, are charged at most once, and admitted no more than the limit.
//   - Leases checks that holders of leases, and others, are admitted no more than their limit, and that a server knows all that is out.
//   - Owners checks that the log of each Raft group has effects on its own keys only.
//   - Promptness measures how many calls were answered in time.
package oracle

import (
	"fmt"
	"strings"
)

// maxDetails bounds the violations that a finding spells out.
const maxDetails = 10

// Finding is the result of one check.
type Finding struct {
	Check   string
	OK      bool
	Text    string   // what was looked at and measured, in one line
	Details []string // the first violations
}

func (f Finding) String() string {
	var b strings.Builder
	verdict := "ok"
	if !f.OK {
		verdict = "VIOLATED"
	}
	fmt.Fprintf(&b, "%-12s %-8s  %s", f.Check, verdict, f.Text)
	for _, d := range f.Details {
		fmt.Fprintf(&b, "\n    %s", d)
	}
	return b.String()
}

// violate notes a violation.
func (f *Finding) violate(format string, args ...any) {
	f.OK = false
	if len(f.Details) < maxDetails {
		f.Details = append(f.Details, fmt.Sprintf(format, args...))
	}
}
