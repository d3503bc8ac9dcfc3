package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// The model of a policy: slow, and written from the grammar's rules. All limits
// are windows that never end, so that a counter is a number.

const (
	unlimited = -1
	blocked   = 0
)

type modelLimit struct {
	name    string
	by      []string // attributes, all needed
	amount  int64    // or unlimited, blocked
	tiers   map[string]int64
	mode    string
	when    string // of attribute op; "" is any
	missing bool   // denies
	all     bool   // counts all
	cost    int64  // constant; 0 is attribute size
}

type modelOverride struct {
	tenant, limit string
	amount        int64
}

// modelPolicy is the text of a policy as a tree.
type modelPolicy struct {
	limits    []modelLimit
	overrides []modelOverride
}

func rateText(amount int64) string {
	switch amount {
	case unlimited:
		return "unlimited"
	case blocked:
		return "blocked"
	}
	return fmt.Sprintf("%d/52w", amount)
}

// numbers is what of the text decides what a limit's counters are held against.
func (p *modelPolicy) numbers(l *modelLimit) string {
	s := "rate: " + rateText(l.amount)
	if l.tiers != nil {
		s = fmt.Sprintf("tiers: {attribute: tier, free: %s, pro: %s, default: %s}", rateText(l.tiers["free"]), rateText(l.tiers["pro"]), rateText(l.tiers["default"]))
	}
	for _, o := range p.overrides {
		if o.limit == l.name {
			s += fmt.Sprint(" ", o)
		}
	}
	return s
}

func (p *modelPolicy) text() string {
	var limits, overrides []string
	for i := range p.limits {
		l := &p.limits[i]
		s := fmt.Sprintf("%s: {algorithm: fixed, align: first, mode: %q, ", l.name, l.mode)
		s += strings.Split(p.numbers(l), " {")[0]
		if l.tiers != nil {
			s += " {" + strings.Split(strings.SplitN(p.numbers(l), " {", 2)[1], "}")[0] + "}"
		} else {
			s = fmt.Sprintf("%s: {algorithm: fixed, align: first, mode: %q, rate: %s", l.name, l.mode, rateText(l.amount))
		}
		if len(l.by) > 0 {
			s += ", by: [" + strings.Join(l.by, ", ") + "]"
		}
		if l.when != "" {
			s += ", when: {op: " + l.when + "}"
		}
		if l.missing {
			s += ", missing: deny"
		}
		if l.all {
			s += ", count: all"
		}
		if l.cost == 0 {
			s += ", cost: size"
		} else {
			s += fmt.Sprint(", cost: ", l.cost)
		}
		limits = append(limits, s+"}")
	}
	for _, o := range p.overrides {
		overrides = append(overrides, fmt.Sprintf("{when: {tenant: %s}, limits: {%s: %s}}", o.tenant, o.limit, rateText(o.amount)))
	}
	return "{deny: [{user: bad}], allow: [{user: root}], limits: {" + strings.Join(limits, ", ") + "}, overrides: [" + strings.Join(overrides, ", ") + "]}"
}

// randomPolicy has some of the limits a to e, each with the same algorithm always.
func randomPolicy(rnd *rand.Rand) (p modelPolicy) {
	amount := func() int64 {
		switch rnd.IntN(20) {
		case 0:
			return unlimited
		case 1:
			return blocked
		}
		return 1 + rnd.Int64N(40)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if rnd.IntN(3) == 0 {
			continue
		}
		l := modelLimit{name: name, amount: amount(), mode: []string{"enforce", "enforce", "enforce", "soft", "shadow", "off"}[rnd.IntN(6)], cost: rnd.Int64N(4)}
		l.by = [][]string{nil, {"user"}, {"tenant"}, {"tenant", "user"}}[rnd.IntN(4)]
		l.missing, l.all = rnd.IntN(5) == 0, rnd.IntN(4) == 0
		if rnd.IntN(4) == 0 {
			l.when = "write"
		}
		if rnd.IntN(4) == 0 {
			l.tiers = map[string]int64{"free": amount(), "pro": amount(), "default": amount()}
		}
		p.limits = append(p.limits, l)
	}
	if len(p.limits) == 0 {
		p.limits = []modelLimit{{name: "a", amount: 5, mode: "enforce", cost: 1}}
	}
	for range rnd.IntN(3) {
		p.overrides = append(p.overrides, modelOverride{[]string{"t1", "t2"}[rnd.IntN(2)], p.limits[rnd.IntN(len(p.limits))].name, amount()})
	}
	return p
}

// modelWorld is a policy, its counters, and what RL.OVERRIDE has said.
type modelWorld struct {
	modelPolicy
	version int64
	gone    map[string]bool // limits that were there
	used    map[string]int64
	limits  map[string]int64  // of RL.OVERRIDE LIMIT, by key
	tiers   map[string]string // of RL.OVERRIDE TIER, by tenant
}

// edit makes p the policy.
func (w *modelWorld) edit(p modelPolicy, reset bool) {
	w.version++
	changed := w.gone // whose numbers are not those before
	w.gone = map[string]bool{}
	for i := range w.modelPolicy.limits {
		was := &w.modelPolicy.limits[i]
		at := slices.IndexFunc(p.limits, func(l modelLimit) bool { return l.name == was.name })
		changed[was.name] = at >= 0 && w.numbers(was) != p.numbers(&p.limits[at])
	}
	for name, yes := range changed {
		if !slices.ContainsFunc(p.limits, func(l modelLimit) bool { return l.name == name }) {
			w.gone[name] = true
			continue
		}
		for key := range w.used {
			if reset && yes && strings.HasPrefix(key, name+";") {
				delete(w.used, key)
			}
		}
	}
	w.modelPolicy = p
}

func (l *modelLimit) key(call map[string]string) (key string, ok bool) {
	key = l.name + ";"
	for _, name := range l.by {
		if call[name] == "" {
			return "", false
		}
		key += name + "=" + call[name] + ";"
	}
	return key, true
}

// amountOf is what the limit has for a call, by precedence.
func (w *modelWorld) amountOf(l *modelLimit, key string, call map[string]string) int64 {
	if n, ok := w.limits[key]; ok {
		return n
	}
	for _, o := range w.overrides {
		if o.limit == l.name && call["tenant"] == o.tenant {
			return o.amount
		}
	}
	if l.tiers == nil {
		return l.amount
	}
	tier := call["tier"]
	if t, ok := w.tiers[call["tenant"]]; ok && slices.Contains(l.by, "tenant") {
		tier = t
	}
	if n, ok := l.tiers[tier]; ok && tier != "default" {
		return n
	}
	return l.tiers["default"]
}

// modelVerdict is what one limit says.
type modelVerdict struct {
	l                       *modelLimit
	key                     string
	cost, amount, remaining int64
	ok, never, over         bool
}

// check is RL.CHECK.
func (w *modelWorld) check(call map[string]string, units int64, peek bool) (allowed bool, name, reason string, each []modelVerdict) {
	switch call["user"] {
	case "bad":
		return false, "", "deny", nil
	case "root":
		return true, "", "allow", nil
	}
	missing := map[int]bool{}
	allowed = true
	for i := range w.modelPolicy.limits {
		l := &w.modelPolicy.limits[i]
		if l.when != "" && call["op"] != l.when {
			continue
		}
		key, ok := l.key(call)
		cost := l.cost * units
		if l.cost == 0 {
			if ok = ok && call["size"] != ""; ok && units > 0 {
				_, _ = fmt.Sscan(call["size"], &cost)
			}
		}
		if !ok && !l.missing {
			continue
		}
		v := modelVerdict{l: l, key: key, cost: cost, amount: w.amountOf(l, key, call)}
		if v.amount == unlimited || l.mode == "off" {
			continue
		}
		switch {
		case !ok:
			missing[len(each)] = true
			v.cost, v.never = 0, true
		case v.amount == blocked:
			v.never = true
		case v.cost == 0:
			v.ok = !l.all || w.used[key] <= v.amount
		default:
			v.ok = w.used[key]+v.cost <= v.amount
			v.never = v.cost > v.amount
		}
		if l.mode == "enforce" && !v.ok {
			allowed = false
		}
		each = append(each, v)
	}
	for i := range each {
		v := &each[i]
		v.over = allowed && !v.ok
		used, fits := w.used[v.key], v.ok
		switch {
		case v.amount == blocked || missing[i]:
		case v.cost > 0 && (v.l.all || allowed && (fits || v.l.mode == "soft")):
			used += v.cost
			if !peek {
				w.used[v.key] = used
			}
			if v.l.all && !(allowed && fits) { // what it would be answered now
				v.ok = used+v.cost <= v.amount
			}
		case !allowed && v.cost == 0 && v.l.all:
		}
		v.remaining = max(v.amount-used, 0)
		if missing[i] || v.amount == blocked {
			v.remaining = 0
		}
	}
	bound := -1
	for i := range each {
		v := &each[i]
		if v.l.mode != "enforce" {
			continue
		}
		switch {
		case allowed && (bound < 0 || v.remaining/max(v.cost, 1) < each[bound].remaining/max(each[bound].cost, 1)),
			!allowed && !v.ok && (bound < 0 || v.never && !each[bound].never):
			bound = i
		}
	}
	switch {
	case allowed:
		reason = "ok"
	case missing[bound]:
		reason = "missing"
	default:
		reason = "limit"
	}
	if bound >= 0 {
		name = each[bound].l.name
	}
	return allowed, name, reason, each
}

// Calls, edits and overrides in any order answer what the rules say, and charge
// what they say: nothing in part, ever.
func TestPoliciesAgainstModel(t *testing.T) {
	seeds, steps := 60, 400
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(11, uint64(seed)))
		r := newRig(t, engine.Config{Shards: 4})
		w := &modelWorld{gone: map[string]bool{}, used: map[string]int64{}, limits: map[string]int64{}, tiers: map[string]string{}}
		set := func(change string) {
			p := randomPolicy(rnd)
			if w.version > 0 && p.text() == w.text() {
				return
			}
			reply := r.parse(r.raw("RL.POLICY", "SET", "p", "CHANGE", change, p.text()))
			w.edit(p, change == "reset")
			require.Equal(t, w.version, reply, "seed %d: %s", seed, p.text())
		}
		set("keep")
		pick := func(values ...string) string { return values[rnd.IntN(len(values))] }
		for step := range steps {
			switch rnd.IntN(25) {
			case 0:
				set(pick("keep", "reset"))
				continue
			case 1:
				w.override(r, rnd)
				continue
			}
			call := map[string]string{"user": pick("u1", "u2", "u1", "u2", "u1", "u2", "", "bad", "root"), "tenant": pick("t1", "t2", "t3", ""),
				"op": pick("read", "write"), "tier": pick("free", "pro", "gold", ""), "size": pick("0", "1", "7", "")}
			units, peek := []int64{0, 1, 1, 1, 2}[rnd.IntN(5)], rnd.IntN(8) == 0
			args := []string{"RL.CHECK", "p", "COST", fmt.Sprint(units)}
			for _, name := range []string{"user", "tenant", "op", "tier", "size"} {
				if call[name] != "" || rnd.IntN(2) == 0 {
					args = append(args, name, call[name])
				}
			}
			if peek {
				args = append(args, "PEEK")
			}
			got := readChecked(t, r.parse(r.raw(args...)).([]any))
			allowed, name, reason, each := w.check(call, units, peek)
			about := fmt.Sprintf("seed %d step %d: %v of %s: %+v", seed, step, args, w.text(), got)
			require.Equal(t, allowed, got.allowed == 1, about)
			require.Equal(t, reason, got.reason, about)
			if name == "" {
				require.Nil(t, got.name, about)
			} else {
				require.Equal(t, name, got.name, about)
			}
			require.Equal(t, w.version, got.version, about)
			require.EqualValues(t, len(each), got.applied, about)
			var over []any
			for i := range each {
				v, l := &each[i], got.limits[each[i].l.name]
				require.Equal(t, v.remaining, l.remaining, "%s of %s", v.l.name, about)
				require.Equal(t, v.ok, l.allowed == 1, "%s of %s", v.l.name, about)
				require.Equal(t, v.never && !v.ok, l.retry == -1, "%s of %s", v.l.name, about)
				require.Equal(t, v.cost, l.cost, "%s of %s", v.l.name, about)
				require.Equal(t, v.l.mode, l.mode, about)
				if v.over && v.l.mode == "soft" {
					over = append(over, v.l.name)
				}
			}
			require.ElementsMatch(t, over, got.soft, about)
		}
	}
}

// override sets or ends an override.
func (w *modelWorld) override(r *rig, rnd *rand.Rand) {
	tenant := []string{"t1", "t2"}[rnd.IntN(2)]
	l := &w.modelPolicy.limits[rnd.IntN(len(w.modelPolicy.limits))]
	switch {
	case rnd.IntN(2) == 0 && l.tiers != nil && slices.Contains(l.by, "tenant"):
		if rnd.IntN(3) == 0 {
			r.words("RL.OVERRIDE DEL p TIER tenant " + tenant)
			delete(w.tiers, tenant)
			return
		}
		tier := []string{"free", "pro"}[rnd.IntN(2)]
		r.is("RL.OVERRIDE SET p TIER "+tier+" tenant "+tenant, "OK")
		w.tiers[tenant] = tier
	case len(l.by) > 0:
		call := map[string]string{"tenant": tenant, "user": "u1"}
		key, _ := l.key(call)
		about := ""
		for _, name := range l.by {
			about += " " + name + " " + call[name]
		}
		if _, ok := w.limits[key]; ok && rnd.IntN(2) == 0 {
			r.is("RL.OVERRIDE DEL p LIMIT "+l.name+about, "1")
			delete(w.limits, key)
			return
		}
		amount := rnd.Int64N(30) - 1
		r.is("RL.OVERRIDE SET p LIMIT "+l.name+" RATE "+rateText(amount)+about, "OK")
		w.limits[key] = amount
	}
}
