package limits

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// known is what a node has for a policy, beside what that says: the Handle of a
// Policy, from before it is in force.
type known struct {
	limits []knownLimit
	lists  *tally // of deny and allow
	passed *passedForm
	rules  *knownRules // of descriptors; nil where there are limits
}

type knownLimit struct {
	*limitForm
	*tally
	// usual is what replies say of calls by the numbers usually.
	usual   *usualForm
	usually *policy.Numbers
}

// knownOf returns what is known of a policy that is in force, or was.
func knownOf(p *policy.Policy) *known { return p.Handle.(*known) }

// know makes p's Handle, unless p has that of the policy before it, of which it
// differs by overrides alone. What was counted for that one, which may be nil, goes
// on; room is for how many further limits there is room to count for, and the others
// share b.rest.
func (b *Book) know(p, before *policy.Policy, room *int) {
	if p.Handle != nil {
		return
	}
	counted := make(map[string]*tally)
	k := &known{limits: make([]knownLimit, len(p.Limits)), passed: b.forms.passed(passedBy{p.Version, len(p.Limits)})}
	if before != nil {
		was := knownOf(before)
		k.lists = was.lists
		for i := range before.Limits {
			counted[before.Limits[i].Name] = was.limits[i].tally
		}
	}
	next := func(t *tally) *tally {
		switch {
		case t != nil && t != b.rest:
			return t
		case *room <= 0:
			return b.rest
		}
		*room--
		return newTally()
	}
	k.lists = next(k.lists)
	for i := range p.Limits {
		l := &p.Limits[i]
		k.limits[i] = knownLimit{limitForm: b.forms.of(l), tally: next(counted[l.Name])}
		k.limits[i].usual, k.limits[i].usually = b.forms.usual(l), l.Usual()
	}
	k.rules = knowRules(p, before, next)
	p.Handle = k
}

// forms are what replies of policies have alike. Limits of one name share theirs,
// and with it the caches that replies are copied from.
type forms struct {
	mu      sync.Mutex
	limits  map[string]*limitForm
	usually map[usualBy]*usualForm
	passing map[passedBy]*passedForm
}

// formsMost bounds each kind of them; beyond it they are made anew.
const formsMost = 10_000

func (f *forms) of(l *policy.Limit) *limitForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.limits, l.Name, newLimitForm)
}

// usual returns what replies say of a limit by its usual numbers; nil if that is not
// the same at all times, or nothing can be decided by them.
func (f *forms) usual(l *policy.Limit) *usualForm {
	n := l.Usual()
	if n == nil || l.Calendar != nil {
		return nil
	}
	ready, ok := n.Handle.(engine.Ready)
	if !ok {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.usually, usualBy{l.Name, ready.Limit().Capacity(), command.CeilMillis(ready.Window()), n.Mode}, newUsualForm)
}

func (f *forms) passed(by passedBy) *passedForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	return formOf(&f.passing, by, newPassedForm)
}

// formOf returns what is known for a key, or makes it.
func formOf[K comparable, F any](known *map[K]*F, key K, form func(K) *F) *F {
	f := (*known)[key]
	if f == nil {
		if len(*known) >= formsMost || *known == nil {
			*known = make(map[K]*F)
		}
		f = form(key)
		(*known)[key] = f
	}
	return f
}

// # Counts
//
// Every check counts once for each limit that it meets. Lanes that count for the
// same limit at the same time do so in lines of memory of their own, if there are
// no more of them than stripes.

// counts are those of one stripe, which is one line of memory. more is what calls
// that passed cost beyond a unit each, modulo 2^64.
type counts struct {
	allowed, denied, penalty, shadow, soft, missing, near, more atomic.Uint64
}

// tally counts the calls of one limit.
type tally struct{ stripes []counts }

// stripes is how many a tally has, a power of two.
var stripes = 1 << bits.Len(uint(min(runtime.GOMAXPROCS(0), 16)-1))

// laneStripes gives lanes their stripes in turn.
var laneStripes atomic.Uint32

func newTally() *tally { return &tally{make([]counts, stripes)} }

// of returns the counts of a lane.
func (t *tally) of(lane uint32) *counts { return &t.stripes[lane&uint32(len(t.stripes)-1)] }

// passing are calls of one pipeline that passed the limits of one policy. They are
// added up and counted when the pipeline ends: an atomic Add is not for nothing.
type passing struct {
	together bool // a pipeline runs
	of       *known
	limits   [policy.MaxLimits]passingLimit
}

// passingLimit is what one limit counts of them.
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

// count counts them, and begins anew.
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

// nearShare is the part of a limit that is left, as a divisor, below which calls
// that pass are near it.
const nearShare = 5

// count counts an answer for the limits that it is about, and reports whether one of
// them, or a list, has denied the call, or would have.
func (m *checkMemory) count(a *answer) (denied bool) {
	k := knownOf(a.policy)
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

// LimitCount tells how often a limit of a policy was asked, except by PEEK. The
// lists of a policy are its limit "", a rule of descriptors goes by its path, and
// what there was no room to count for is the policy "".
type LimitCount struct {
	Policy, Limit string
	// Allowed are calls that passed, Near those of them that left less than a fifth,
	// and Cost their units. Denied are calls that the limit denied, but for those of
	// callers whom it blocks: these are Penalty. Shadow and Soft
	// are calls that passed and that it would have denied. Missing are calls without
	// an attribute that it needs, which it denies or to which it does not apply; of
	// the lists they are calls that no limit of the policy applies to.
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

// countedMost is for how many limits and lists there are counts of their own.
const countedMost = 1000

// Counts returns the counts of the limits of all policies that are in force.
func (b *Book) Counts() (all []LimitCount) {
	set := b.Set()
	beyond := false
	for _, name := range set.Names() {
		p := set.Policy([]byte(name))
		k := knownOf(p)
		for i := -1; i < len(p.Limits); i++ {
			t, limit := k.lists, ""
			if i >= 0 {
				t, limit = k.limits[i].tally, p.Limits[i].Name
			}
			if t == b.rest {
				beyond = true
				continue
			}
			n := t.sum(name, limit)
			if i < 0 {
				n.Cost = 0 // a list has no units
			}
			all = append(all, n)
		}
		if k.rules == nil {
			continue
		}
		k.rules.each(p, func(t *tally, limit string) {
			if beyond = beyond || t == b.rest; t != b.rest {
				all = append(all, t.sum(name, limit))
			}
		})
	}
	if beyond {
		all = append(all, b.rest.sum("", ""))
	}
	return all
}

// counted is for how many limits and lists of a policy there are counts.
func (b *Book) counted(p *policy.Policy) (n int) {
	if p == nil {
		return 0
	}
	k := knownOf(p)
	n = int(command.Truth(k.lists != b.rest))
	for i := range k.limits {
		n += int(command.Truth(k.limits[i].tally != b.rest))
	}
	if k.rules != nil {
		n += int(command.Truth(k.rules.asked != b.rest))
		for _, t := range k.rules.rules {
			n += int(command.Truth(t != b.rest))
		}
	}
	return n
}
