package oracle

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/faults/history"
)

// GatewayUser is a user of one of the fronts that gateways ask.
type GatewayUser struct{ Front, User string }

// Gateways checks the answers to gateways, which ask once. No user was admitted more than
// limit. A user was denied only if the calls that were admitted, or may have been,
// explain it. In the end the user's counter holds each answered call once, and at most
// the unanswered ones besides. charged reports whether an answer of a front has charged
// its counter. Users who were asked about before forgotten, when all was deleted, are
// left out.
func Gateways(asked []history.Asked, limit, forgotten int64, charged func(*history.Asked) bool, used map[GatewayUser]int64) Finding {
	f := Finding{Check: "gateways", OK: true}
	type sums struct {
		admitted, denied, unknown, charged int64
		excused                            bool
	}
	users := make(map[GatewayUser]*sums)
	var names []GatewayUser
	decided, denied, local := map[string]int{}, 0, 0
	for i := range asked {
		a := &asked[i]
		who := GatewayUser{a.Front, a.User}
		s := users[who]
		if s == nil {
			s = new(sums)
			users[who] = s
			names = append(names, who)
		}
		s.excused = s.excused || a.Start <= forgotten
		switch a.Outcome {
		case history.Admitted:
			s.admitted++
		case history.Denied:
			s.denied++
			denied++
		case history.Unknown:
			s.unknown++
		}
		if a.Outcome == history.Admitted || a.Outcome == history.Denied {
			decided[a.Front]++
			if charged(a) {
				s.charged++
			}
		}
		if a.Local {
			local++
		}
		if a.Wrong != "" {
			f.violate("%s about %s at %.3f s: %s", a.Front, a.User, seconds(a.Start), a.Wrong)
		}
	}
	slices.SortFunc(names, func(a, b GatewayUser) int {
		return slices.Compare([]string{a.Front, a.User}, []string{b.Front, b.User})
	})
	looked := 0
	for _, who := range names {
		s := users[who]
		if s.excused {
			continue
		}
		if s.admitted > limit {
			f.violate("%s: %s was admitted %d times of %d", who.Front, who.User, s.admitted, limit)
		}
		if s.denied > 0 && s.admitted+s.unknown < limit {
			f.violate("%s: %s was denied after %d of %d, and %d without an answer", who.Front, who.User, s.admitted, limit, s.unknown)
		}
		if n, ok := used[who]; ok {
			looked++
			if n < s.charged || n > s.charged+s.unknown {
				f.violate("%s: the counter of %s holds %d in the end, and %d to %d were charged", who.Front, who.User, n, s.charged, s.charged+s.unknown)
			}
		}
	}
	f.Text = fmt.Sprintf("%d questions by routes and %d by descriptors decided of %d, %d denied, %d without a leader; %d counters read in the end",
		decided["gateway"], decided["Envoy"], len(asked), denied, local, looked)
	return f
}
