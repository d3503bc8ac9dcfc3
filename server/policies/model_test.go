package policies_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The model of a policy: slow, and written from the grammar's rules. All limits
// are windows that do not end as long as a test's clock runs, so that a counter is
// a number.

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
	return fmt.Sprintf("%d/20h", amount)
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
	version  int64
	past     []modelPolicy   // by version, from 1; one without limits is none
	gone     map[string]bool // limits that were there
	used     map[string]modelUsed
	scalings map[string]int // by limit, the edits that keep shares

	now    int64                  // Unix seconds
	limits map[string]modelEnding // of RL.OVERRIDE LIMIT, by key
	tiers  map[string]modelEnding // of RL.OVERRIDE TIER, by tenant
	scale  modelEnding            // of RL.OVERRIDE SCALE
}

// modelUsed is the state of a counter: its units, when its window began, the amount that they
// were charged under, and how many edits had scaled the units by then.
type modelUsed struct {
	units, since, amount int64
	scalings             int
}

// modelPeriod is that of all limits, in seconds.
const modelPeriod = 20 * 3600

// modelEnding is what an override says, and when it ends; 0 is never.
type modelEnding struct {
	tier   string
	amount int64 // or percent
	until  int64
}

func (e modelEnding) over(now int64) bool { return e.until != 0 && e.until <= now }

// holds is what a counter has against an amount: a share of it, rounded up, if an
// edit has kept shares since.
func (w *modelWorld) holds(l *modelLimit, key string, amount int64) int64 {
	u := w.used[key]
	if u.scalings != w.scalings[l.name] && u.units > 0 && amount > 0 {
		return (u.units*amount + u.amount - 1) / u.amount
	}
	return u.units
}

// reset forgets all counters.
func (w *modelWorld) reset() {
	w.version++
	w.past = append(w.past, w.modelPolicy)
	clear(w.used)
}

// edit makes p the policy; one without limits is none.
func (w *modelWorld) edit(p modelPolicy, change string) {
	w.version++
	w.past = append(w.past, p)
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
		if yes && change == "proportional" {
			w.scalings[name]++
		}
		for key := range w.used {
			if change == "reset" && yes && strings.HasPrefix(key, name+";") {
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

// amountOf is what the limit has for a call: by precedence, and turned up or down.
func (w *modelWorld) amountOf(l *modelLimit, key string, call map[string]string) int64 {
	n := w.unscaled(l, key, call)
	if percent := w.scale.amount; percent != 0 && n > 0 && !w.scale.over(w.now) {
		return (n*percent + 99) / 100
	}
	return n
}

func (w *modelWorld) unscaled(l *modelLimit, key string, call map[string]string) int64 {
	if o, ok := w.limits[key]; ok && !o.over(w.now) {
		return o.amount
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
	if o, ok := w.tiers[call["tenant"]]; ok && !o.over(w.now) && slices.Contains(l.by, "tenant") {
		tier = o.tier
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
	full                    bool  // it had room for the call, which is denied, and has none now
	wait                    int64 // until the window ends
}

// check is RL.CHECK. retry is in seconds.
func (w *modelWorld) check(call map[string]string, units int64, peek bool) (allowed bool, name, reason string, retry int64, each []modelVerdict) {
	switch call["user"] {
	case "bad":
		return false, "", "deny", math.MaxInt64, nil
	case "root":
		return true, "", "allow", 0, nil
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
			v.ok = true
		default:
			v.ok = w.holds(l, key, v.amount)+v.cost <= v.amount
			v.never = v.cost > v.amount
		}
		if v.wait = w.used[key].since + modelPeriod - w.now; v.never {
			v.wait = math.MaxInt64
		}
		if l.mode == "enforce" && !v.ok {
			allowed = false
		}
		each = append(each, v)
	}
	for i := range each {
		v := &each[i]
		v.over = allowed && !v.ok
		used, fits := w.holds(v.l, v.key, v.amount), v.ok
		switch {
		case v.amount == blocked || missing[i]:
		case v.cost > 0 && (v.l.all || allowed && (fits || v.l.mode == "soft")):
			used += v.cost
			since := w.now
			if was, there := w.used[v.key]; there {
				since = was.since
			}
			if !v.never {
				v.wait = since + modelPeriod - w.now
			}
			if !peek {
				w.used[v.key] = modelUsed{used, since, v.amount, w.scalings[v.l.name]}
			}
			v.full = fits && !allowed && used+v.cost > v.amount
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
			!allowed && !v.ok && (bound < 0 || v.wait > each[bound].wait):
			bound = i
		}
		if !allowed && (!v.ok || v.full) {
			retry = max(retry, v.wait)
		}
	}
	switch {
	case len(each) == 0:
		reason = "none"
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
	return allowed, name, reason, retry, each
}
