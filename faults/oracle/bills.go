package oracle

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/faults/history"
)

// Billed is what the counters of a user hold in the end, by limit.
type Billed map[string]int64

// Bills checks calls that clients repeat under a name until they are answered, and holds
// that are settled. Each answer is that of the first time. In the end a user's counters
// hold what each call cost, once. No user was admitted more than limit units. Bills that
// began before forgotten, when all was deleted, are left out, and so are their users.
func Bills(bills []history.Bill, limit, forgotten int64, used map[string]Billed) Finding {
	f := Finding{Check: "bills", OK: true}
	type sums struct {
		least, most, admitted int64
		excused               bool
	}
	users := make(map[string]*sums)
	var names []string
	answers, holds, retried := 0, 0, 0
	for i := range bills {
		b := &bills[i]
		s := users[b.User]
		if s == nil {
			s = new(sums)
			users[b.User] = s
			names = append(names, b.User)
		}
		if b.Start <= forgotten {
			s.excused = true
			continue
		}
		s.least, s.most = s.least+b.Least(), s.most+b.Most()
		if b.Outcome == history.Admitted {
			s.admitted += min(int64(b.Cost), b.Least())
		}
		answers += b.Answers
		if b.Holds {
			holds++
		}
		if b.Retried {
			retried++
		}
		if b.Differs != "" {
			f.violate("%s of %s, from %.3f to %.3f s: %s", b.Name, b.User, seconds(b.Start), seconds(b.End), b.Differs)
		}
	}
	slices.Sort(names)
	looked := 0
	for _, name := range names {
		s := users[name]
		if s.excused {
			continue
		}
		if s.admitted > limit {
			f.violate("%s was admitted %d units of %d", name, s.admitted, limit)
		}
		for limit, n := range used[name] {
			looked++
			if n < s.least || n > s.most {
				f.violate("limit %s of %s holds %d in the end, and its bills are %d to %d", limit, name, n, s.least, s.most)
			}
		}
	}
	f.Text = fmt.Sprintf("%d calls by name, %d of them held, %d made again not knowing what had become of them, answered %d times; %d counters read in the end",
		len(bills), holds, retried, answers, looked)
	return f
}
