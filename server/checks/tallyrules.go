package checks

import (
	"slices"
	"strings"
	"sync"

	"github.com/headgate-io/headgate/policy"
)

// # Counts of descriptors
//
// A rule of descriptors has a tally as a limit has, named by its path. If the policy's text
// asks for values in metrics, each path with values has a tally, up to valuedMost.

// ruleTallies are the tallies of a policy's descriptors.
type ruleTallies struct {
	rules []*tally
	asked *tally // of limits in requests

	// mu guards valued: the tallies by paths with values.
	mu     sync.Mutex
	valued map[string]*tally
}

const (
	// askedLimit is the name of all limits that come in requests.
	askedLimit = "(request)"
	// valuedMost bounds the paths with values that have tallies, for each policy. Others
	// count for their rule.
	valuedMost = 100
)

// newRuleTallies returns the tallies of p's descriptors, nil for none. The counts of the
// policy before, which may be nil, continue.
func newRuleTallies(p, before *policy.Policy, next func(*tally) *tally) *ruleTallies {
	d := p.Descriptors()
	if d == nil {
		return nil
	}
	k := &ruleTallies{valued: make(map[string]*tally)}
	counted := make(map[string]*tally)
	var asked *tally
	if before != nil && before.Descriptors() != nil {
		was := attachedTo(before).rules
		asked = was.asked
		for i, r := range before.Descriptors().Rules() {
			counted[r.Path] = was.rules[i]
		}
	}
	k.asked = next(asked)
	for _, r := range d.Rules() {
		k.rules = append(k.rules, next(counted[r.Path]))
	}
	return k
}

// of returns the tally that a matched descriptor counts in.
func (k *ruleTallies) of(m *policy.Matched, entries [][]byte) *tally {
	switch {
	case m.Rule == nil:
		return k.asked
	case !m.Rule.Detailed && !slices.Contains(m.Rule.Valued, true):
		return k.rules[m.Rule.Index]
	}
	path := valuedPath(m.Rule, entries)
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.valued[path]
	if t == nil {
		if len(k.valued) >= valuedMost {
			return k.rules[m.Rule.Index]
		}
		t = newTally()
		k.valued[path] = t
	}
	return t
}

// valuedPath returns the path of a rule with the values of the request.
func valuedPath(r *policy.Rule, entries [][]byte) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 2 {
		if i > 0 {
			b.WriteByte('.')
		}
		if r.Detailed || r.Valued[i/2] {
			b.Write(entries[i])
			b.WriteByte('_')
			b.Write(entries[i+1])
		} else {
			b.WriteString(r.Levels[i/2])
		}
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// count counts a decided request for its rules. It reports whether one of them has denied
// it, or would have.
func (k *ruleTallies) count(x *descriptorMemory, lane uint32) (denied bool) {
	for i := range x.matcher.Matched {
		m, s := &x.matcher.Matched[i], &x.ruling.statuses[i]
		if m.Outcome == policy.Unmatched || m.Outcome == policy.Replaced {
			continue
		}
		c := k.of(m, x.args.asked[i].Entries).of(lane)
		switch {
		case s.over:
			c.denied.Add(1)
			denied = true
		case s.flags&flagExceeded != 0:
			c.shadow.Add(1)
			denied = true
		default:
			var p passingLimit
			p.add(max(m.Hits, 0), s.limited && s.left < s.limit.Requests/nearShare)
			p.count(c)
		}
	}
	return denied
}

// each yields the tallies of a policy's rules.
func (k *ruleTallies) each(p *policy.Policy, yield func(t *tally, limit string)) {
	for i, r := range p.Descriptors().Rules() {
		yield(k.rules[i], r.Path)
	}
	yield(k.asked, askedLimit)
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, t := range k.valued {
		yield(t, path)
	}
}
