package policies

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// # Surveys
//
// For a dry run, a survey counts which existing counters would deny a call after the
// change. It walks the table as SCAN does, in small batches under a shard's lock. It asks
// each counter of a changed policy under the counter's new limit. The call only looks, and
// charges nothing.
//
// A key shows which limit the counter belongs to, but not all attributes of a call. The
// limit's numbers may depend on a tier or on overrides that the key does not show. The
// survey then takes the tier under which the counter was last charged. If even the tier is
// not clear, the counter counts as perhaps over.

const (
	// surveyTime bounds the duration of a survey. It is enough for some million keys.
	surveyTime = time.Second
	// surveyBatch is how many keys the survey reads at a time.
	surveyBatch = 256
)

// survey is one walk over the table.
type survey struct {
	sess   *engine.Session // in database 0
	now    int64
	call   *policy.Call
	limits map[string]*surveyed     // by the prefix of their keys, without @
	trees  map[string]*surveyedTree // descriptors, by the same prefix
	order  []*surveyed              // in the order of the policies' texts
	looked int                      // number of keys that the walk has seen
	whole  bool                     // the walk has reached the end

	// Scratch.
	keys       [][]byte
	is, was    []policy.Possible
	checks     [1]engine.Check
	checked    [1]engine.Checked
	tierOfBoth []string
}

// surveyed is a limit and the counts of its counters.
type surveyed struct {
	name             string        // as RL.POLICY DIFF names the limit
	was, is          *policy.Limit // was is nil for a new limit
	live, over, open int
}

// surveyOf returns the lines of a survey of the named policies. The survey compares the
// present set with the staged set.
func surveyOf(sess *engine.Session, st *staged, names []string) ([]string, error) {
	s := newSurvey(sess, st.base, st.next, names)
	if s == nil {
		return nil, nil
	}
	db := sess.Database()
	sess.Use(0) // policies count in database 0
	defer sess.Use(db)
	end := time.Now().Add(surveyTime)
	if err := s.run(func() bool { return time.Now().Before(end) }); err != nil {
		return nil, err
	}
	return s.lines(), nil
}

// newSurvey returns a survey of the named policies that are in both sets and differ. It
// returns nil if there are none.
func newSurvey(sess *engine.Session, base, next *policy.Set, names []string) *survey {
	s := &survey{sess: sess, now: sess.Engine().Now(), limits: make(map[string]*surveyed), trees: make(map[string]*surveyedTree)}
	for _, name := range names {
		was, is := base.Policy([]byte(name)), next.Policy([]byte(name))
		if is == nil || is.Version < 2 {
			continue
		}
		if is.Descriptors() != nil {
			s.addTree(is)
		}
		for i := range is.Limits {
			l := &surveyed{name: name + ": limits." + is.Limits[i].Name, is: &is.Limits[i]}
			if was != nil {
				if at := slices.IndexFunc(was.Limits, func(w policy.Limit) bool { return w.ID == l.is.ID }); at >= 0 {
					l.was = &was.Limits[at]
				}
			}
			s.limits[strings.TrimPrefix(policy.KeyPrefix(name), "@")+l.is.ID] = l
			s.order = append(s.order, l)
		}
	}
	if len(s.limits)+len(s.trees) == 0 {
		return nil
	}
	s.call = policy.NewCall()
	return s
}

// run walks the table to its end, or until more returns false between two batches.
func (s *survey) run(more func() bool) error {
	for cursor := uint64(0); ; {
		s.keys = s.keys[:0]
		next, err := s.sess.Scan(s.now, cursor, surveyBatch, func(key []byte, kind algo.Algorithm) {
			s.looked++
			if kind.IsPolicy() && (s.limit(key) != nil || s.tree(key) != nil) {
				s.keys = append(s.keys, slices.Clone(key))
			}
		})
		if err != nil {
			return err
		}
		for _, key := range s.keys {
			if err := s.ask(key); err != nil {
				return err
			}
		}
		if s.whole = next == 0; s.whole || !more() {
			return nil
		}
		cursor = next
	}
}

// limit returns the limit to which a key's counter belongs, or nil.
func (s *survey) limit(key []byte) *surveyed {
	head, _, _ := bytes.Cut(key, []byte(";"))
	if len(head) == 0 || head[0] != '@' {
		return nil
	}
	return s.limits[string(head[1:])]
}

// ask asks the counter of a key for a decision, and counts the result.
func (s *survey) ask(key []byte) error {
	if t := s.tree(key); t != nil {
		return s.askRule(t, key)
	}
	l := s.limit(key)
	_, _, pairs, ok := policy.ParseKey(key)
	if !ok {
		return nil
	}
	if s.is, ok = s.call.Counter(l.is, key, pairs, s.now, s.is[:0]); !ok {
		return nil // the new limit counts by other attributes: no call will use this counter
	}
	if len(s.is) > 1 && l.was != nil {
		if err := s.narrow(l, key, pairs); err != nil {
			return err
		}
	}
	l.live++
	denied := 0
	for _, p := range s.is {
		over, err := s.denies(l.is, p.Numbers, key)
		if err != nil {
			return err
		}
		if over {
			denied++
		}
	}
	switch denied {
	case 0:
	case len(s.is):
		l.over++
	default:
		l.open++
	}
	return nil
}

// narrow reduces the possible tiers of a counter to those under whose numbers it was last
// charged.
func (s *survey) narrow(l *surveyed, key []byte, pairs []policy.Pair) error {
	x, there, err := s.sess.Explain(s.now, key)
	if err != nil || !there {
		return err
	}
	if s.was, there = s.call.Counter(l.was, key, pairs, s.now, s.was[:0]); !there {
		return nil
	}
	s.tierOfBoth = s.tierOfBoth[:0]
	for _, p := range s.was {
		limit := checks.EngineLimit(l.was, p.Numbers)
		limit.Resets, limit.Scalings = x.Limit.Resets, x.Limit.Scalings
		if p.Tier == "" || limit != x.Limit {
			continue
		}
		tier := p.Tier
		if !slices.ContainsFunc(s.is, func(n policy.Possible) bool { return n.Tier == tier }) {
			tier = "default" // the tier is deleted
		}
		s.tierOfBoth = append(s.tierOfBoth, tier)
	}
	if len(s.tierOfBoth) > 0 {
		s.is = slices.DeleteFunc(s.is, func(p policy.Possible) bool { return p.Tier != "" && !slices.Contains(s.tierOfBoth, p.Tier) })
	}
	return nil
}

// denies reports whether the counter would now deny a call under the given numbers of a
// limit. The call costs what the limit says. If the call itself sets the cost, it is one
// unit.
func (s *survey) denies(l *policy.Limit, n *policy.Numbers, key []byte) (bool, error) {
	if n.Mode == policy.Off || n.Rate.Kind == policy.Unlimited {
		return false, nil
	}
	ready, err := checks.ReadyFor(s.sess, l, n)
	if err != nil {
		return false, err
	}
	cost := int64(1)
	if n.CostBy < 0 {
		cost = max(n.Cost, 1)
	}
	// A check in shadow mode returns the decision, but reports no denial.
	s.checks[0] = engine.Check{Key: key, Hash: maphash.Bytes(s.sess.Engine().Seed(), key), Limit: ready, Cost: cost, Wait: l.Wait, Debt: l.Debt, Mode: algo.Shadow, Window: checks.Window(l, s.now)}
	_, err = s.sess.Check(s.now, s.checks[:], engine.CheckOptions{Peek: true, Anew: true}, s.checked[:])
	return s.checked[0].Over, err
}

// lines returns the counts, one line per limit, and says if the walk ended early.
func (s *survey) lines() (lines []string) {
	for _, l := range s.order {
		if l.live == 0 {
			continue
		}
		line := fmt.Sprintf("%s: live counters: %d, over: %d", l.name, l.live, l.over)
		if l.open > 0 {
			line += fmt.Sprintf(", perhaps over: %d", l.open)
		}
		lines = append(lines, line)
	}
	if !s.whole {
		lines = append(lines, fmt.Sprintf("stopped after %s: %d of %d keys were looked at", surveyTime, s.looked, s.sess.Engine().DatabaseLen(0)))
	}
	return lines
}
