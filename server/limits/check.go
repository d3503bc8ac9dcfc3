package limits

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// checkCommands ask policies.
func checkCommands(book *Book) []command.Spec {
	return []command.Spec{{
		Name: "rl.check", Arity: -2, Flags: command.Write | command.DenyOOM | command.Fast | command.Limit | command.Databases,
		Derived: book.keys, Ahead: book.ahead, Secrets: book.checkSecrets, Headless: book.headless, Categories: command.CatLimiter, Group: "limiter", Complexity: "O(N), N the number of limits of the policy",
		Summary: "Checks a call against all limits of a policy that apply, as one atomic step, and charges them if it passes.",
		Syntax:  "policy [attribute value ...] [COST units] [ID id] [PEEK] [SYNC | ASYNC] [FAIL <OPEN | CLOSED | LOCAL>]",
		Handler: book.check,
	}}
}

// Errors of RL.CHECK.
var (
	errChanging = errors.New("TRYAGAIN policies are being changed")
	errFail     = errors.New("ERR FAIL must be open, closed or local")
)

// noPolicy is the error for a policy that is not there.
func (b *Book) noPolicy(name []byte) string {
	if err := b.trouble(string(name)); err != nil {
		return "ERR policy '" + string(name) + "' is not understood by this node: " + err.Error()
	}
	return fmt.Sprintf("NOPOLICY there is no policy '%s'", command.Clip(name, command.ErrorClip))
}

// refuseUnknown refuses a check of a policy that there is not.
func (b *Book) refuseUnknown(call *command.Call) {
	b.unknown.Add(1)
	call.Error(b.noPolicy(call.Args[1]))
}

// checkArgs are the parsed options of RL.CHECK.
type checkArgs struct {
	pairs [][]byte // names and values, in turn
	units int64
	peek  bool
	sync  command.SyncMode
	fail  policy.Failure
	// holds tells that the call is RL.RESERVE, and ttl is that of the hold, ns, 0
	// for the policy's. names tells that the call may be given a name, which is id,
	// nil for none.
	holds, names bool
	ttl          int64
	id           []byte
	given        checkOption // which options are
	// printed tells that secrets may be given by what is printed for them.
	printed bool
}

// checkOption is a set of options.
type checkOption uint8

const (
	optionCost checkOption = 1 << iota
	optionPeek
	optionSync
	optionFail
	optionTTL
	optionID
)

// once notes that an option is given; it is an error if it was before.
func (a *checkArgs) once(o checkOption, name string) error {
	if a.given&o != 0 {
		return givenTwice(name)
	}
	a.given |= o
	return nil
}

func givenTwice(name string) error { return fmt.Errorf("ERR syntax error, %s is given twice", name) }

// parse reads what follows the policy's name, from left to right: the word of an
// option takes its argument, anything else is the name of an attribute, and the
// argument behind it its value, whatever it is.
func (a *checkArgs) parse(args [][]byte) error {
	*a = checkArgs{pairs: a.pairs[:0], units: 1}
	return a.read(args)
}

// read is parse of what is left.
func (a *checkArgs) read(args [][]byte) error {
	for len(args) > 0 {
		n, err := a.option(args)
		if err != nil {
			return err
		}
		if n > 0 {
			args = args[n:]
			continue
		}
		if len(args) < 2 {
			return fmt.Errorf("ERR attribute '%s' has no value", command.Clip(args[0], command.ErrorClip))
		}
		a.pairs = append(a.pairs, args[0], args[1])
		args = args[2:]
	}
	return nil
}

// option reads one option, and returns how many arguments it took: none if there
// is no such option.
func (a *checkArgs) option(args [][]byte) (n int, err error) {
	word := args[0]
	if !mayBeOption(word) {
		return 0, nil
	}
	n = 1
	switch {
	case command.EqualFold(word, "cost"):
		if len(args) < 2 {
			return 0, command.ErrSyntax
		}
		if err = a.once(optionCost, "COST"); err == nil {
			a.units, err = parseInteger(args[1])
		}
		n = 2
	case command.EqualFold(word, "peek"):
		a.peek, err = true, a.once(optionPeek, "PEEK")
	case command.EqualFold(word, "sync"):
		if err = setSync(&a.sync, command.SyncCommit); err == nil {
			err = a.once(optionSync, "SYNC")
		}
	case command.EqualFold(word, "async"):
		if err = setSync(&a.sync, command.SyncNone); err == nil {
			err = a.once(optionSync, "ASYNC")
		}
	case command.EqualFold(word, "id"):
		n, err = a.readID(args)
	case command.EqualFold(word, "ttl"):
		n, err = a.readTTL(args)
	case command.EqualFold(word, "fail"):
		if len(args) < 2 {
			return 0, command.ErrSyntax
		}
		if err = a.once(optionFail, "FAIL"); err == nil {
			a.fail, err = parseFailure(args[1])
		}
		n = 2
	default:
		n = 0
	}
	return n, err
}

// mayBeOption rules out most names of attributes at a glance.
func mayBeOption(word []byte) bool {
	const first = 1<<('a'&31) | 1<<('c'&31) | 1<<('f'&31) | 1<<('i'&31) | 1<<('p'&31) | 1<<('s'&31) | 1<<('t'&31)
	return len(word) >= len("id") && len(word) <= len("async") && first&(1<<(word[0]&31)) != 0
}

// setSync sets the mode of SYNC or ASYNC, which exclude each other.
func setSync(mode *command.SyncMode, m command.SyncMode) error {
	if *mode != command.SyncDefault && *mode != m {
		return errSync
	}
	*mode = m
	return nil
}

// answer is a decided check, as RL.CHECK replies it.
type answer struct {
	policy  *policy.Policy
	ok      bool
	reason  string
	binding int // position in applied, -1 for none
	delay   int64
	applied []policy.Applied
	each    []engine.Checked // of applied
	hold    []byte           // nil for none
	begun   bool             // a block begins
}

// Reasons of answers: a call passes since its limits admit it, or since no limit
// applies to it; it is denied since a limit blocks its caller.
const (
	reasonOK      = "ok"
	reasonNone    = "none"
	reasonPenalty = "penalty"
)

// check is RL.CHECK.
func (b *Book) check(call *command.Call) {
	m := memory(call)
	defer m.end()
	var set *policy.Set
	if call.Degraded { // what a follower has taken over is enough
		set, _ = b.current()
	} else {
		set = b.Set()
	}
	p := m.take(call, set)
	ready := p != nil
	if !ready {
		if err := m.args.parseNamed(call.Args[2:], false); err != nil {
			call.Error(err.Error())
			return
		}
	}
	if m.args.id != nil {
		b.hold(call, m, set, p)
		return
	}
	for try := 0; ; try++ {
		if !ready {
			if p = set.Policy(call.Args[1]); p == nil {
				b.refuseUnknown(call)
				return
			}
			if err := m.match(p, call.Now); err != nil {
				m.fail(call, err)
				return
			}
		}
		if p.Slots { // what it takes is held
			b.hold(call, m, set, p)
			return
		}
		var a answer
		err := m.decide(call, p, engine.CheckOptions{Peek: m.args.peek, Anew: try > 0, Warm: ready}, &a)
		ready = false
		if errors.Is(err, engine.ErrStale) && try < 2 {
			// It was decided under a later version. If that is not here, it is
			// none any more: the record was taken back.
			set = b.Set()
			continue
		}
		if err != nil {
			m.fail(call, err)
			return
		}
		b.decided(call, m, &a)
		a.write(call)
		return
	}
}

// decided counts a decided call, tells who listens of a denial, and says how durable
// its reply is to be.
func (b *Book) decided(call *command.Call, m *checkMemory, a *answer) {
	call.Decided(a.ok)
	if !m.args.peek {
		if m.count(a) && b.denials.Listening() {
			b.tellDenials(call.Now, a)
		}
	}
	call.Sync = durability(a.policy, m.args.sync)
}

// headless is how RL.CHECK and RL.RESERVE are answered while no leader does: as they say
// themselves, or as their policy does. A policy that this node does not know refuses.
func (b *Book) headless(args [][]byte) command.Headless {
	set, _ := b.current()
	p := set.Policy(args[1])
	if p == nil {
		return command.Headless{Failure: policy.FailClosed}
	}
	h := command.Headless{Failure: p.OnFailure, Backstop: p.Backstop, Prompt: true}
	var a checkArgs
	if saysHeadless(args[2:]) && a.parseReserve(args[2:]) == nil {
		a.headless(&h)
	}
	return h
}

// headless puts what options say into h.
func (a *checkArgs) headless(h *command.Headless) {
	if a.fail != policy.FailServer {
		h.Failure = a.fail
	}
	h.Prompt = a.sync != command.SyncCommit
}

// DecidesAlone reports whether there is a policy by which a node answers while no
// leader does, whatever is its own.
func (b *Book) DecidesAlone() bool {
	set, _ := b.current()
	for _, name := range set.Names() {
		if f := set.Policy([]byte(name)).OnFailure; f == policy.FailOpen || f == policy.FailLocal {
			return true
		}
	}
	return false
}

// fillIn puts what the limits say that were asked into their places, and what those
// say that demand an attribute which the call has not.
func (m *checkMemory) fillIn(a *answer, checked []engine.Checked) {
	clear(a.each)
	for j, i := range m.at {
		a.each[i] = checked[j]
	}
	for i := range a.applied {
		if l := &a.applied[i]; l.Missing {
			a.each[i].Decision = algo.Decision{Limit: engineLimit(l.Limit, l.Numbers).Capacity(), RetryAfter: algo.Never}
			a.each[i].Over = a.ok
		}
	}
}

// durability is what the reply waits for: what the policy says, or the call, if
// that is more.
func durability(p *policy.Policy, asked command.SyncMode) command.SyncMode {
	switch {
	case p.Durability == policy.Sync || asked == command.SyncCommit:
		return command.SyncCommit
	case p.Durability == policy.Async && asked == command.SyncDefault:
		return command.SyncNone
	}
	return asked
}

// badCall is an error of the call itself, of its attributes or costs.
type badCall struct{ error }

func (m *checkMemory) fail(call *command.Call, err error) {
	var bad badCall
	switch {
	case errors.As(err, &bad):
		call.Error("ERR " + bad.Error())
	case errors.Is(err, engine.ErrStale):
		call.Error(errChanging.Error())
	case errors.Is(err, engine.ErrNotIsolated): // the policy has other keys than when they were held
		call.Err = err
		call.Error(errChanging.Error())
	default:
		call.Fail(err)
	}
}

// decide decides the call, which p was matched with.
func (m *checkMemory) decide(call *command.Call, p *policy.Policy, o engine.CheckOptions, a *answer) error {
	*a = answer{policy: p, ok: m.verdict != policy.Denied, reason: reasonOK, binding: -1}
	switch m.verdict {
	case policy.Denied:
		a.reason = "deny"
	case policy.Allowed:
		a.reason = "allow"
	default:
		return m.ask(call, o, a)
	}
	// Nothing is counted; but only who decides may say so.
	_, err := call.Limits.Check(call.Now, nil, engine.CheckOptions{}, nil)
	return err
}

// ask has the limits that apply decided.
func (m *checkMemory) ask(call *command.Call, o engine.CheckOptions, a *answer) error {
	a.applied = m.call.Applied
	n := len(a.applied)
	if cap(m.out) < 2*n {
		m.out = make([]engine.Checked, 2*policy.MaxLimits)
	}
	m.checks, m.at = m.checks[:0], m.at[:0]
	missing := -1
	for i := range a.applied {
		l := &a.applied[i]
		if l.Missing {
			if l.Numbers.Mode == policy.Enforce && missing < 0 {
				missing, o.Denied = i, true
			}
			continue
		}
		ready, ok := l.Numbers.Handle.(engine.Ready)
		if !ok { // numbers that a SCALE has made
			var err error
			if ready, err = call.Sess.Ready(engineLimit(l.Limit, l.Numbers)); err != nil {
				return err
			}
		}
		m.checks = append(m.checks, engine.Check{
			Key: l.Key, Hash: l.Hash, Limit: ready, Cost: l.Cost, Wait: l.Limit.Wait, Debt: l.Limit.Debt,
			Mode: engine.Mode(l.Numbers.Mode), CountAll: l.Limit.CountAll, Penalty: (*engine.Penalty)(l.Limit.Penalty),
		})
		m.at = append(m.at, i)
	}
	if a.policy.Calendars {
		for j, i := range m.at {
			m.checks[j].Window = windowOf(a.applied[i].Limit, call.Now)
		}
	}
	checked, each := m.out[:len(m.checks)], m.out[len(m.checks):len(m.checks)+n]
	v, err := call.Limits.Check(call.Now, m.checks, o, checked)
	if err != nil {
		return err
	}
	a.ok, a.delay, a.each, a.begun = v.OK, v.Delay, checked, v.Begun
	if len(checked) < n {
		a.each = each
		m.fillIn(a, checked)
	}
	if v.Binding >= 0 {
		a.binding = m.at[v.Binding]
	}
	switch {
	case v.Penalty:
		a.reason = reasonPenalty
		if missing >= 0 { // no wait ends that
			a.each[a.binding].RetryAfter = algo.Never
		}
	case !a.ok:
		a.reason = "limit"
		// Of two that no wait ends the first stands for the call.
		if missing >= 0 && (a.binding < 0 || a.each[a.binding].RetryAfter != algo.Never || missing < a.binding) {
			a.binding, a.reason = missing, "missing"
		}
	case n == 0:
		a.reason = reasonNone
	}
	return nil
}
