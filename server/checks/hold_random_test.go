package checks_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// histories is how many random histories TestHistoriesOfHolds plays.
var histories = flag.Int("histories", 0, "how many random `histories` of holds and names are played; 0 is few")

// historySeed is that of the first.
var historySeed = flag.Uint64("history-seed", 1, "the `seed` of the first history")

// A history has reservations; settlements of every kind, early, late and repeated; IDs that are
// repeated or taken by others; resets; and time that passes. They come in any order, over every
// algorithm and a window of the calendar. Each answer, and each counter after each step, is
// what was promised.
func TestHistoriesOfHolds(t *testing.T) {
	n, steps := 300, 30
	if testing.Short() {
		n = 40
	}
	if *histories > 0 {
		n = *histories
	}
	var p *player
	for i := range n {
		if i%200 == 0 {
			if p != nil {
				p.sess.Close()
			}
			r := rig.New(t, engine.Config{Shards: 4})
			p = &player{Rig: r, sess: r.Engine.NewSession()}
			p.Is("SELECT 0", "OK")
		}
		p.begin(*historySeed + uint64(i))
		for p.step = range steps {
			p.play()
		}
		if *histories > 0 && i%10_000 == 9999 {
			t.Logf("%d histories", i+1)
		}
	}
	p.sess.Close()
}

// player plays one history after the other.
type player struct {
	*rig.Rig
	sess *engine.Session
	w    *histWorld
	rnd  *rand.Rand
	seed uint64
	step int
	text string
	log  []said
	ids  int
}

// said is a line of a history, and what it was answered.
type said struct {
	at   int64
	line string
	got  any
}

// String says where a history is.
func (p *player) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d step %d of %s:", p.seed, p.step, p.text)
	for _, s := range p.log {
		fmt.Fprintf(&b, "\n%d: %s: %v", s.at, s.line, s.got)
	}
	return b.String()
}

func (p *player) pick(values ...int64) int64 { return values[p.rnd.IntN(len(values))] }

// begin begins a history with a policy of its own.
func (p *player) begin(seed uint64) {
	p.seed, p.rnd, p.log = seed, rand.New(rand.NewPCG(seed, 13)), nil
	w := &histWorld{
		share: p.pick(100, 100, 100, 50), ttl: p.pick(1, 5, 20, 120, 3000), keep: p.pick(30, 600), charged: p.rnd.IntN(2) == 0,
		now: p.Engine.Now()/int64(time.Second) + 1, counters: make(map[string]*histCounter),
	}
	var limits []string
	for _, name := range []string{"a", "b", "c"}[:1+p.rnd.IntN(3)] {
		l := histLimit{
			name: name, algorithm: []string{"token", "leaky", "fixed", "sliding", "log", "fixed"}[p.rnd.IntN(6)],
			all: p.rnd.IntN(4) == 0, shadow: p.rnd.IntN(5) == 0, byTokens: p.rnd.IntN(3) == 0, each: 1 + p.rnd.Int64N(3),
		}
		l.amount, l.period = p.pick(6, 12, 30), p.pick(60, 60, 3600)
		l.capacity, l.secondsPerUnit = l.amount, l.period/l.amount
		l.name += "_" + l.algorithm // which one name keeps
		text := fmt.Sprintf("%s: {algorithm: %s, rate: %d/%ds", l.name, l.algorithm, l.amount, l.period)
		switch {
		case l.bucket() && p.rnd.IntN(2) == 0:
			l.capacity = p.pick(5, 40)
			text += fmt.Sprintf(" burst %d", l.capacity)
		case l.algorithm == "fixed" && p.rnd.IntN(2) == 0:
			l.name, l.period = name+"_day", 86400
			text = fmt.Sprintf("%s: {calendar: UTC, rate: %d/day", l.name, l.amount)
		}
		if !l.all {
			text += ", by: user"
		}
		if l.shadow {
			text += ", mode: shadow"
		}
		if l.byTokens {
			text += ", cost: tokens"
		} else {
			text += fmt.Sprint(", cost: ", l.each)
		}
		limits = append(limits, text+"}")
		w.limits = append(w.limits, l)
	}
	expiry := "release"
	if w.charged {
		expiry = "charge"
	}
	p.w = w
	p.text = fmt.Sprintf("{hold: {ttl: %ds, keep: %ds, expiry: %s, share: %d%%}, limits: {%s}}", w.ttl, w.keep, expiry, w.share, strings.Join(limits, ", "))
	p.Set(w.now * int64(time.Second))
	p.Is("FLUSHALL", "OK")
	p.SetPolicy("p", p.text)
}

// play plays a step, and looks at all counters.
func (p *player) play() {
	p.pass()
	switch n := p.rnd.IntN(20); {
	case n < 5:
		p.call(false)
	case n < 11:
		p.call(true)
	case n < 16:
		p.settles()
	case n < 18:
		p.repeats()
	case n < 19:
		p.say("RL.COMMIT p;nobody COST 1")
		p.Is("RL.COMMIT p;nobody COST 1", "-NOHOLD there is no hold 'p;nobody'")
	default:
		p.resets()
	}
	p.look()
}

func (p *player) say(line string) { p.log = append(p.log, said{at: p.w.now, line: line}) }

// pass lets time pass, and has holds that have ended settled: within two seconds.
func (p *player) pass() {
	w := p.w
	d := p.pick(0, 0, 0, 1, 1, 2, 5, 10, 17, 31, 61, 119, 240)
	if p.rnd.IntN(40) == 0 {
		d = p.pick(1800, 3600, 7*3600, 23*3600) // what nobody settles in a day is forgotten
	}
	for w.now += d; w.edge(w.now); w.now++ {
	}
	p.Set(w.now * int64(time.Second))
	p.Engine.SettleEnded(context.Background(), p.sess, p.Engine.Now())
	for _, h := range w.holds {
		if h.state != "reserved" || w.now < h.ends {
			continue
		}
		for tries := 0; ; tries++ {
			state := p.state(h)
			if state == "expired" {
				w.end(h)
				break
			}
			require.Equal(p.T, "reserved", state, p)
			if w.now < h.ends+2 {
				break
			}
			require.Less(p.T, tries, 1000, "%s has not ended: %s", h.id, p)
			runtime.Gosched() // somebody else is about to settle it
			p.Engine.SettleEnded(context.Background(), p.sess, p.Engine.Now())
		}
	}
	w.forgets()
}

// state is what a hold is said to be.
func (p *player) state(h *histHold) any {
	reply := p.Words("RL.EXPLAIN HOLD " + h.id)
	_, failed := reply.(error)
	require.False(p.T, failed, "%v: %s", reply, p)
	return rig.Pair(p.T, reply, "state")
}

// call makes a call, some by name.
func (p *player) call(holds bool) {
	call := histCall{user: []string{"u1", "u2"}[p.rnd.IntN(2)], units: p.pick(0, 1, 1, 2, 3, 7), tokens: p.pick(-1, 0, 1, 5, 9, 20), holds: holds}
	name := ""
	if p.rnd.IntN(2) == 0 {
		p.ids++
		name = fmt.Sprint("n", p.ids)
	}
	p.make(call, name)
}

// line is the call without its name.
func (c *histCall) line() string {
	verb, tokens := "RL.CHECK", ""
	if c.holds {
		verb = "RL.RESERVE"
	}
	if c.tokens >= 0 {
		tokens = fmt.Sprint(" tokens ", c.tokens)
	}
	return fmt.Sprintf("%s p user %s%s COST %d", verb, c.user, tokens, c.units)
}

// make makes a call that was not made before.
func (p *player) make(call histCall, name string) {
	w, line := p.w, call.line()
	ttl := w.ttl
	if call.holds && p.rnd.IntN(3) == 0 {
		ttl = p.pick(1, 3, 600)
	}
	if call.holds && ttl != w.ttl {
		line += fmt.Sprintf(" TTL %ds", ttl)
	}
	asked := line
	if name != "" {
		line += " ID " + name
	}
	p.say(line)
	got := rig.ReadChecked(p.T, p.Words(line).([]any))
	p.log[len(p.log)-1].got = got
	allowed, binding, wait, each, held := w.decide(call)
	about := fmt.Stringer(p)
	require.Equal(p.T, allowed, got.Allowed == 1, about)
	if binding != "" {
		require.Equal(p.T, binding, got.Name, about)
	}
	if !allowed && wait != -2 {
		require.Equal(p.T, max(wait*1000, -1), got.Retry, about)
	}
	require.EqualValues(p.T, len(each), got.Applied, about)
	for i := range each {
		v := &each[i]
		require.Equal(p.T, v.remaining, got.Limits[v.l.name].Remaining, "%s: %s", v.l.name, about)
		require.Equal(p.T, v.cost, got.Limits[v.l.name].Cost, "%s: %s", v.l.name, about)
	}
	require.Equal(p.T, allowed && call.holds, got.Hold != nil, about)
	if !allowed || !call.holds && name == "" {
		return
	}
	h := &histHold{name: name, asked: asked, first: got, plain: !call.holds, ends: w.now + ttl, charges: w.charged, state: "reserved", held: held}
	if h.first.Limits = map[string]rig.CheckedLimit{}; h.plain {
		h.state, h.known, h.held = "charged", w.now+w.keep, nil
	} else {
		h.id = got.Hold.(string)
		if name != "" {
			require.Equal(p.T, "p;"+name, h.id, about)
		}
	}
	h.first.Soft = []any{}
	w.holds = append(w.holds, h)
}

// some returns one of the holds that are as wanted, nil if there is none.
func (p *player) some(wanted func(*histHold) bool) *histHold {
	var all []*histHold
	for _, h := range p.w.holds {
		if wanted(h) {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[p.rnd.IntN(len(all))]
}

// settles settles a hold, for the first time or again.
func (p *player) settles() {
	w := p.w
	h := p.some(func(h *histHold) bool { return !h.plain })
	if h == nil {
		return
	}
	commit, units, tokens := p.rnd.IntN(4) > 0, p.pick(-1, 0, 1, 2, 5, 30), p.pick(-1, 0, 1, 7, 40)
	line := "RL.CANCEL " + h.id
	if commit {
		line = "RL.COMMIT " + h.id
		if units >= 0 {
			line += fmt.Sprint(" COST ", units)
		}
		if tokens >= 0 && slices.ContainsFunc(w.limits, func(l histLimit) bool { return l.byTokens }) {
			line += fmt.Sprint(" tokens ", tokens)
		} else {
			tokens = -1
		}
	}
	p.say(line)
	got := p.Settle(line)
	p.log[len(p.log)-1].got = got
	about := fmt.Stringer(p)
	if h.state == "committed" || h.state == "cancelled" {
		require.Equal(p.T, h.answer, got, about)
		return
	}
	costs := w.settle(h, commit, units, tokens)
	if h.state, h.known = "cancelled", w.now+w.keep; commit {
		h.state = "committed"
	}
	require.Equal(p.T, h.state, got.Reason, about)
	require.EqualValues(p.T, 1, got.Allowed, about)
	require.Len(p.T, got.Limits, len(h.held), about)
	require.Equal(p.T, w.over(h), got.Over, about)
	for i := range h.held {
		l := h.held[i].l
		require.Equal(p.T, costs[i], got.Limits[l.name].Cost, "%s: %s", l.name, about)
		require.Equal(p.T, w.remainingOf(&h.held[i]), got.Limits[l.name].Remaining, "%s: %s", l.name, about)
	}
	h.answer = got
	h.answer.Limits, h.answer.Soft = map[string]rig.CheckedLimit{}, []any{}
}

// remainingOf is what a limit that a hold has charged has left.
func (w *histWorld) remainingOf(x *histHeld) int64 { return x.c.remaining(x.l, w.now) }

// repeats repeats a call that has an ID, or makes another call with that ID.
func (p *player) repeats() {
	h := p.some(func(h *histHold) bool { return h.name != "" })
	if h == nil {
		return
	}
	line := h.asked + " ID " + h.name
	if p.rnd.IntN(4) == 0 {
		line = strings.Replace(line, "user u", "user x", 1)
		p.say(line)
		p.Is(line, "-IDCONFLICT '"+h.name+"' was given to another call")
		return
	}
	p.say(line)
	require.Equal(p.T, h.first, rig.ReadChecked(p.T, p.Words(line).([]any)), p)
}

// resets forgets what a user has consumed, or all.
func (p *player) resets() {
	line, user := "RL.POLICY RESET p", ""
	if p.rnd.IntN(2) == 0 {
		user = "u1"
		line += " user " + user
	}
	p.say(line)
	require.IsType(p.T, int64(0), p.Words(line), p)
	ended := slices.Clone(p.w.holds)
	p.w.reset(user)
	for _, h := range ended {
		if !h.plain && !slices.Contains(p.w.holds, h) {
			p.Is("RL.CANCEL "+h.id, "-NOHOLD there is no hold '"+h.id+"'")
		}
	}
}

// look compares all counters, and what is known of holds.
func (p *player) look() {
	w := p.w
	for _, user := range []string{"u1", "u2"} {
		got := rig.ReadChecked(p.T, p.Words("RL.CHECK p user "+user+" tokens 0 COST 0 PEEK").([]any))
		for i := range w.limits {
			l := &w.limits[i]
			require.Equal(p.T, w.counter(l, user).remaining(l, w.now), got.Limits[l.name].Remaining, "%s of %s: %s", l.name, user, p)
		}
	}
	if h := p.some(func(h *histHold) bool { return !h.plain }); h != nil && (h.state != "reserved" || w.now < h.ends) {
		require.Equal(p.T, h.state, p.state(h), p)
	}
}
