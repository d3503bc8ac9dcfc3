package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// overrideArgs holds the arguments that name an override, and the override's values.
type overrideArgs struct {
	kind    policy.OverrideKind
	limit   []byte
	tier    string
	rate    policy.Rate
	percent int64
	until   int64 // Unix ns; 0 means no end
	pairs   [][]byte
}

// Errors of overrides.
var (
	errOverrideKind = errors.New("ERR syntax error, use LIMIT, TIER or SCALE after the name")
	errPercent      = errors.New("ERR SCALE must be a percentage such as 50%")
	errUntil        = errors.New("ERR UNTIL must be a time such as 2026-12-31T23:00:00Z, or Unix seconds")
	errOverridden   = errors.New("ERR a policy may have at most 1000000 overrides")
	errDescriptor   = errors.New("ERR SCALE is the only override for a policy with descriptors: to limit one caller, add a descriptor to the policy, such as {key: api_key, value: acme, rate_limit: ...}")
)

// maxOverrides bounds the overrides of a policy.
const maxOverrides = 1_000_000

// parseOverride reads the arguments after the policy's name. sets says whether they include
// values.
func parseOverride(args [][]byte, sets bool) (a overrideArgs, err error) {
	word := args[0]
	args = args[1:]
	next := func() (b []byte) {
		if len(args) == 0 {
			if err == nil {
				err = command.ErrSyntax
			}
			return nil
		}
		b, args = args[0], args[1:]
		return b
	}
	switch {
	case command.EqualFold(word, "limit"):
		a.kind, a.limit = policy.OverrideLimit, next()
		if sets {
			if err == nil && !command.EqualFold(next(), "rate") {
				err = command.ErrSyntax
			}
			if rate := next(); err == nil {
				if a.rate, err = policy.ParseNumbers(string(rate)); err != nil {
					err = fmt.Errorf("ERR rate %w", err)
				}
			}
		}
	case command.EqualFold(word, "tier"):
		if a.kind = policy.OverrideTier; sets {
			a.tier = string(next())
		}
	case command.EqualFold(word, "scale"):
		if a.kind = policy.OverrideScale; sets {
			if a.percent, err = parsePercent(next()); err != nil {
				return a, err
			}
		}
	default:
		return a, errOverrideKind
	}
	if sets && err == nil && len(args) > 0 && command.EqualFold(args[0], "until") {
		next()
		a.until, err = parseUntil(next())
	}
	a.pairs = args
	return a, err
}

// parsePercent reads a percentage, with or without %.
func parsePercent(b []byte) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(b), "%"), 10, 32)
	if err != nil {
		return 0, errPercent
	}
	return n, nil
}

// parseUntil reads a time: RFC 3339, or Unix seconds.
func parseUntil(b []byte) (int64, error) {
	at, err := policy.ParseTimeOrSeconds(string(b))
	switch {
	case errors.Is(err, policy.ErrTimeLate):
		return 0, fmt.Errorf("ERR UNTIL: %w", err)
	case err != nil:
		return 0, errUntil
	}
	return at, nil
}

// override returns the override that RL.OVERRIDE SET makes.
func (e *Editor) override(call *command.Call) (o policy.Override, err error) {
	a, err := parseOverride(call.Args[3:], true)
	if err != nil {
		return o, err
	}
	p := e.book.texts().Policy(call.Args[2])
	if p == nil {
		return o, errors.New(e.book.Missing(call.Args[2]))
	}
	return overrideOf(p, &a)
}

// overrideOf returns the override of policy p that the arguments describe.
func overrideOf(p *policy.Policy, a *overrideArgs) (o policy.Override, err error) {
	if a.kind != policy.OverrideScale && p.Descriptors() != nil {
		return o, errDescriptor
	}
	c, err := callOf(p, a.pairs)
	if err != nil {
		return o, err
	}
	switch a.kind {
	case policy.OverrideLimit:
		o, err = c.LimitOverride(string(a.limit), a.rate, a.until)
	case policy.OverrideTier:
		o, err = c.TierOverride(a.tier, a.until)
	default:
		if len(a.pairs) > 0 {
			return o, errors.New("ERR SCALE applies to the whole policy and takes no attributes")
		}
		o, err = p.ScaleOverride(a.percent, a.until)
	}
	if err != nil {
		err = fmt.Errorf("ERR %w", err)
	}
	return o, err
}

// setOverride handles RL.OVERRIDE SET.
func (e *Editor) setOverride(call *command.Call) {
	o, err := e.override(call)
	if err == nil && e.book.InForce().CountOverrides(o.Policy) >= maxOverrides {
		err = errOverridden
	}
	if err != nil {
		call.Error(oneLine(err.Error()))
		return
	}
	if !e.putOverride(call, &o, o.Append(nil)) {
		return
	}
	e.confirmed(call, func(w *resp.Writer) { w.OK() })
}

// putOverride puts the record of an override; a nil value deletes the record. It reports
// whether it succeeded. If it fails, it replies the error.
func (e *Editor) putOverride(call *command.Call, o *policy.Override, value []byte) bool {
	call.Sync = command.SyncCommit
	name := overrideRecord(o)
	err := call.Sess.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		return e.book.numbered([]engine.PolicyRecord{{Name: name, Value: value}}, get), nil
	})
	if err != nil {
		call.Fail(err)
		return false
	}
	author, id := call.Host.Author(), o.ID()
	e.audit.LogAttrs(context.Background(), slog.LevelInfo, "override changed",
		slog.String("author", author), slog.String("policy", o.Policy), slog.String("override", id), slog.Bool("deleted", value == nil))
	e.book.events.Post(events.Event{At: call.Now / 1e6, Type: events.Override, Policy: o.Policy, Change: id, Deleted: value == nil, Author: author})
	return true
}

// found returns the stored override that a command names.
func (e *Editor) found(call *command.Call) (o policy.Override, ok bool, err error) {
	a, err := parseOverride(call.Args[3:], false)
	if err != nil {
		return o, false, err
	}
	if len(a.pairs)%2 != 0 {
		return o, false, noValue(a.pairs[len(a.pairs)-1])
	}
	set, name := e.book.Set(), string(call.Args[2])
	o = policy.Override{Policy: name, Kind: a.kind}
	if a.kind != policy.OverrideScale {
		// Only the policy knows the types of attributes and the limit's id.
		if o, err = e.identity(call, set.Policy(call.Args[2]), &a); err != nil {
			return e.sleeping(set, name, &a, err)
		}
	}
	value := e.book.record(overrideRecord(&o))
	if value == nil {
		return o, false, nil
	}
	stored, err := policy.DecodeOverride(value)
	if err != nil { // o identifies the override, so it can be deleted
		return o, true, fmt.Errorf("ERR %w", err)
	}
	return stored, true, nil
}

// identity returns an override with only the identity of the override that a names. It
// fails if the policy does not have the named limit or tier.
func (e *Editor) identity(call *command.Call, p *policy.Policy, a *overrideArgs) (o policy.Override, err error) {
	if p == nil {
		return o, errors.New(e.book.Missing(call.Args[2]))
	}
	c, err := callOf(p, a.pairs)
	if err != nil {
		return o, err
	}
	tiers := []string{""}
	if a.kind == policy.OverrideLimit {
		o, err = c.LimitOverride(string(a.limit), policy.Rate{Kind: policy.Blocked}, 0)
		tiers = nil
	} else {
		for i := range p.Limits {
			tiers = append(tiers, p.Limits[i].Tiers()...)
		}
	}
	for _, tier := range tiers { // overrides of all tiers have the same identity
		if o, err = c.TierOverride(tier, 0); err == nil {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("ERR %w", err)
	}
	return o, err
}

// sleeping looks for a sleeping override, which no longer fits its policy. It compares the
// attributes as they are written. err says why identity has failed.
func (e *Editor) sleeping(set *policy.Set, name string, a *overrideArgs, err error) (policy.Override, bool, error) {
	for o := range set.Overrides(name) {
		pairs := o.Pairs()
		if o.Kind != a.kind || set.LimitOf(&o) != string(a.limit) || 2*len(pairs) != len(a.pairs) {
			continue
		}
		same := true
		for i := 0; i < len(a.pairs) && same; i += 2 {
			same = slices.ContainsFunc(pairs, func(p policy.Pair) bool {
				return p.Name == string(a.pairs[i]) && p.Value == string(a.pairs[i+1])
			})
		}
		if same {
			return o, true, nil
		}
	}
	return policy.Override{}, false, err
}

// getOverride handles RL.OVERRIDE GET.
func (e *Editor) getOverride(call *command.Call) {
	o, ok, err := e.found(call)
	switch {
	case err != nil:
		call.Error(oneLine(err.Error()))
	case !ok:
		call.W.Null()
	default:
		writeOverride(call.W, e.book.Set(), &o, call.Now)
	}
}

// delOverride handles RL.OVERRIDE DEL. It replies how many overrides were deleted.
func (e *Editor) delOverride(call *command.Call) {
	o, ok, err := e.found(call)
	if err != nil && !ok {
		call.Error(oneLine(err.Error()))
		return
	}
	if ok && !e.putOverride(call, &o, nil) {
		return
	}
	if !ok {
		call.W.Int(0)
		return
	}
	e.confirmed(call, func(w *resp.Writer) { w.Int(1) })
}

// listMost is the most overrides that RL.OVERRIDE LIST returns.
const listMost = 100_000

// listOverrides handles RL.OVERRIDE LIST.
func (e *Editor) listOverrides(call *command.Call) {
	after, most := "", int64(listMost)
	for args := call.Args[3:]; len(args) > 0; args = args[2:] {
		switch {
		case len(args) > 1 && command.EqualFold(args[0], "count"):
			n, err := wire.ParseInteger(args[1])
			if err != nil || n < 1 {
				call.Error("ERR COUNT must be at least 1")
				return
			}
			most = min(n, listMost)
		case len(args) > 1 && command.EqualFold(args[0], "after"):
			after = string(args[1])
		default:
			call.Error(command.ErrSyntax.Error())
			return
		}
	}
	name, now, set := string(call.Args[2]), call.Now, e.book.Set()
	call.Host.Block(call, 0, func(w *resp.Writer) {
		list := set.ListOverrides(name, after, int(most))
		w.Array(len(list))
		for i := range list {
			writeOverride(w, set, &list[i], now)
		}
	})
}

// writeOverride writes an override as a map.
func writeOverride(w *resp.Writer, set *policy.Set, o *policy.Override, now int64) {
	p := command.NewPairs(w)
	switch o.Kind {
	case policy.OverrideLimit:
		p.Str("kind", "limit")
		p.Str("limit", set.LimitOf(o))
		p.Str("rate", o.Rate.String())
	case policy.OverrideTier:
		p.Str("kind", "tier")
		p.Str("tier", o.Tier)
	default:
		p.Str("kind", "scale")
		p.Int("percent", o.Percent)
	}
	until := ""
	if o.Until != 0 {
		until = policy.FormatTime(o.Until)
	}
	p.Str("until", until)
	p.Int("over", command.Truth(o.Until != 0 && o.Until <= now))
	p.Int("sleeps", command.Truth(set.Sleeps(o)))
	pairs := o.Pairs()
	list := p.List("attributes", 2*len(pairs))
	for _, pair := range pairs {
		list.BulkString(pair.Name)
		list.BulkString(pair.Value)
	}
	p.Str("id", o.ID())
	p.Flush()
}

// callOf returns a call of p with the attributes in pairs. Values of secret attributes may
// be plain, or in the hashed form that Headgate prints.
func callOf(p *policy.Policy, pairs [][]byte) (*policy.Call, error) {
	if len(pairs)%2 != 0 {
		return nil, noValue(pairs[len(pairs)-1])
	}
	c := policy.NewCall()
	c.Begin(p)
	for i := 0; i < len(pairs); i += 2 {
		if err := c.SetPrinted(pairs[i], pairs[i+1]); err != nil {
			return nil, fmt.Errorf("ERR %w", err)
		}
	}
	return c, nil
}

// noValue returns the error for an attribute whose value is missing.
func noValue(name []byte) error {
	return fmt.Errorf("ERR attribute '%s' has no value", command.Clip(name, command.ErrorClip))
}
