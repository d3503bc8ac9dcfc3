package checks

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// attached is what checks keep with a policy: its Handle, made before the policy is in
// force.
type attached struct {
	limits []attachedLimit
	lists  *tally // of deny and allow
	passed *passedForm
	rules  *ruleTallies // of descriptors; nil for a policy with limits
}

type attachedLimit struct {
	*limitForm
	*tally
	// usual is the reply form of calls under the usual numbers, usually.
	usual   *usualForm
	usually *policy.Numbers
}

// attachedTo returns the Handle of a policy that is or was in force.
func attachedTo(p *policy.Policy) *attached { return p.Handle.(*attached) }

// Tallies count the results of each limit of the policies in force. Each policy holds its
// tallies in its Handle.
type Tallies struct {
	// counting is how many limits and lists have their own tally. All other limits and
	// lists count in rest.
	counting atomic.Int64
	rest     *tally
	forms    forms
}

// NewTallies returns tallies of no policies.
func NewTallies() *Tallies { return &Tallies{rest: newTally()} }

// Swap is a policy that replaces another. Was is nil for a new policy, Is for a deleted
// one.
type Swap struct{ Was, Is *policy.Policy }

// Attach makes the Handles of policies that are about to be in force. The counts of the
// policies before them continue.
func (t *Tallies) Attach(swaps []Swap) {
	room := countedMost - int(t.counting.Load())
	for _, s := range swaps {
		if s.Is != nil {
			t.attach(s.Is, s.Was, &room)
		}
	}
}

// Replace notes that policies are in force now.
func (t *Tallies) Replace(swaps []Swap) {
	for _, s := range swaps {
		if s.Is == nil || s.Was == nil || s.Is.Handle != s.Was.Handle {
			t.counting.Add(int64(t.counted(s.Is) - t.counted(s.Was)))
		}
	}
}

// attach makes p's Handle, unless p has that of the policy before it: then only overrides
// differ. room is how many more limits may have a tally of their own.
func (t *Tallies) attach(p, before *policy.Policy, room *int) {
	if p.Handle != nil {
		return
	}
	counted := make(map[string]*tally)
	k := &attached{limits: make([]attachedLimit, len(p.Limits)), passed: t.forms.passed(passedBy{p.Version, len(p.Limits)})}
	if before != nil {
		was := attachedTo(before)
		k.lists = was.lists
		for i := range before.Limits {
			counted[before.Limits[i].Name] = was.limits[i].tally
		}
	}
	next := func(own *tally) *tally {
		switch {
		case own != nil && own != t.rest:
			return own
		case *room <= 0:
			return t.rest
		}
		*room--
		return newTally()
	}
	k.lists = next(k.lists)
	for i := range p.Limits {
		l := &p.Limits[i]
		k.limits[i] = attachedLimit{limitForm: t.forms.of(l), tally: next(counted[l.Name])}
		k.limits[i].usual, k.limits[i].usually = t.forms.usual(l), l.Usual()
	}
	k.rules = newRuleTallies(p, before, next)
	p.Handle = k
}

// # Counts
//
// Every check counts once for each limit that it meets. Lanes that count for the same limit
// at the same time use cache lines of their own, if there are at most as many lanes as
// stripes.

// counts are the counts of one stripe, in one cache line. more is the cost beyond one unit
// of calls that passed, modulo 2^64.
type counts struct {
	allowed, denied, penalty, shadow, soft, missing, near, more atomic.Uint64
}

// tally counts the calls of one limit.
type tally struct{ stripes []counts }

// stripes is how many a tally has, a power of two.
var stripes = 1 << bits.Len(uint(min(runtime.GOMAXPROCS(0), 16)-1))

// laneStripes numbers the lanes, to give them their stripes.
var laneStripes atomic.Uint32

func newTally() *tally { return &tally{make([]counts, stripes)} }

// of returns the counts of a lane.
func (t *tally) of(lane uint32) *counts { return &t.stripes[lane&uint32(len(t.stripes)-1)] }

// passing are calls of one pipeline that passed the limits of one policy. They are added up
// and counted when the pipeline ends, because an atomic add has a price.
type passing struct {
	together bool // a pipeline runs
	of       *attached
	limits   [policy.MaxLimits]passingLimit
}

// passingLimit is the counts of one limit in passing.
type passingLimit struct {
	allowed, near uint32
	more          uint64
}

func (p *passingLimit) add(cost int64, near bool) {
	p.allowed++
	p.more += uint64(cost - 1)
	if near {
		p.near++
	}
}

// count adds the passed checks to the tallies, and resets p.
func (p *passing) count(lane uint32) {
	if p.of == nil {
		return
	}
	for i := range p.of.limits {
		if l := &p.limits[i]; l.allowed > 0 {
			l.count(p.of.limits[i].of(lane))
			*l = passingLimit{}
		}
	}
	p.of = nil
}

func (p *passingLimit) count(c *counts) {
	c.allowed.Add(uint64(p.allowed))
	if p.more != 0 {
		c.more.Add(p.more)
	}
	if p.near != 0 {
		c.near.Add(uint64(p.near))
	}
}

// endRound is Call.Ended of RL.CHECK.
func (m *checkMemory) endRound() {
	m.passing.count(m.lane)
	m.passing.together = false
}

// nearShare is a divisor: a call that passes is near a limit if less than this part of it
// is left.
const nearShare = 5

// count counts an answer for its limits. It reports whether one of them, or a list, has
// denied the call, or would have.
func (m *checkMemory) count(a *answer) (denied bool) {
	k := attachedTo(a.policy)
	switch m.verdict {
	case policy.Denied:
		k.lists.of(m.lane).denied.Add(1)
		return true
	case policy.Allowed:
		k.lists.of(m.lane).allowed.Add(1)
		return false
	}
	if a.reason == reasonNone {
		k.lists.of(m.lane).missing.Add(1)
	}
	if m.passing.together && m.passing.of != k {
		m.passing.count(m.lane)
		m.passing.of = k
	}
	for i := range a.applied {
		l, d := &a.applied[i], &a.each[i]
		c := k.limits[l.Limit.Index].of(m.lane)
		switch {
		case d.Over && l.Numbers.Mode == policy.Shadow:
			c.shadow.Add(1)
			denied = true
		case d.Over:
			c.soft.Add(1)
		case i == a.binding && a.reason == reasonPenalty:
			c.penalty.Add(1)
			denied = true
		case !d.OK && l.Numbers.Mode == policy.Enforce:
			c.denied.Add(1)
			denied = true
		case a.ok && m.passing.together:
			m.passing.limits[l.Limit.Index].add(l.Cost, d.Remaining < d.Limit/nearShare)
		case a.ok:
			var p passingLimit
			p.add(l.Cost, d.Remaining < d.Limit/nearShare)
			p.count(c)
		}
		if l.Missing {
			c.missing.Add(1)
		}
	}
	for skipped := m.call.Skipped; skipped != 0; skipped &= skipped - 1 {
		k.limits[bits.TrailingZeros32(skipped)].of(m.lane).missing.Add(1)
	}
	return denied
}

// LimitCount is the counts of one limit of a policy, except those by PEEK. Limit is "" for
// the lists of a policy, and the path for a rule of descriptors. Policy is "" for all
// limits that have no tally of their own.
type LimitCount struct {
	Policy, Limit string
	// Allowed counts the calls that passed the limit, Cost counts their units, and Near
	// counts the calls among them that left less than a fifth of the limit. Denied counts
	// the calls that the limit denied. If the limit blocks the caller, the call counts in
	// Penalty instead. Shadow and Soft count calls that passed although the limit would
	// have denied them. Missing counts calls without an attribute that the limit needs; the
	// limit denies them or does not apply. For lists, Missing counts the calls to which no
	// limit of the policy applies.
	Allowed, Denied, Penalty, Shadow, Soft, Missing, Near, Cost uint64
}

func (t *tally) sum(name, limit string) LimitCount {
	n := LimitCount{Policy: name, Limit: limit}
	for i := range t.stripes {
		c := &t.stripes[i]
		n.Allowed += c.allowed.Load()
		n.Denied += c.denied.Load()
		n.Penalty += c.penalty.Load()
		n.Shadow += c.shadow.Load()
		n.Soft += c.soft.Load()
		n.Missing += c.missing.Load()
		n.Near += c.near.Load()
		n.Cost += c.more.Load()
	}
	n.Cost += n.Allowed
	return n
}

// countedMost is how many limits and lists have counts of their own.
const countedMost = 1000

// Of returns the counts of the limits of all policies of a set that is or was in force.
func (t *Tallies) Of(set *policy.Set) (all []LimitCount) {
	beyond := false
	for _, name := range set.Names() {
		p := set.Policy([]byte(name))
		k := attachedTo(p)
		for i := -1; i < len(p.Limits); i++ {
			own, limit := k.lists, ""
			if i >= 0 {
				own, limit = k.limits[i].tally, p.Limits[i].Name
			}
			if own == t.rest {
				beyond = true
				continue
			}
			n := own.sum(name, limit)
			if i < 0 {
				n.Cost = 0 // a list has no units
			}
			all = append(all, n)
		}
		if k.rules == nil {
			continue
		}
		k.rules.each(p, func(own *tally, limit string) {
			if beyond = beyond || own == t.rest; own != t.rest {
				all = append(all, own.sum(name, limit))
			}
		})
	}
	if beyond {
		all = append(all, t.rest.sum("", ""))
	}
	return all
}

// counted returns how many limits and lists of a policy have a tally of their own.
func (t *Tallies) counted(p *policy.Policy) (n int) {
	if p == nil {
		return 0
	}
	k := attachedTo(p)
	n = int(command.Truth(k.lists != t.rest))
	for i := range k.limits {
		n += int(command.Truth(k.limits[i].tally != t.rest))
	}
	if k.rules != nil {
		n += int(command.Truth(k.rules.asked != t.rest))
		for _, own := range k.rules.rules {
			n += int(command.Truth(own != t.rest))
		}
	}
	return n
}
