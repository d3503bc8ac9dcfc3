package policies

import (
	"bytes"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
)

// surveyedTree holds the descriptors of a policy, with the counts of each rule's counters.
type surveyedTree struct {
	is      *policy.Policy
	matcher policy.Descriptor
	rules   []*surveyed
	counted [1]engine.Counted
}

// addTree adds the rules of a policy with descriptors.
func (s *survey) addTree(is *policy.Policy) {
	t := &surveyedTree{is: is}
	for _, r := range is.Descriptors().Rules() {
		l := &surveyed{name: is.Name + ": descriptors." + r.Path, is: is.Descriptors().Limit()}
		t.rules = append(t.rules, l)
		s.order = append(s.order, l)
	}
	s.trees[is.Name] = t
}

// tree returns the descriptors that a key's counter belongs to, or nil.
func (s *survey) tree(key []byte) *surveyedTree {
	if len(s.trees) == 0 {
		return nil
	}
	name, ok := policy.IsDescriptorKey(key)
	if !ok {
		return nil
	}
	return s.trees[name]
}

// askRule counts the counter of a descriptor. The counter is over if it would deny a
// request of one hit. askRule skips two kinds of counters: those that no request will use,
// because the new text gives the descriptor another limit or none; and those whose key does
// not show their descriptor.
func (s *survey) askRule(t *surveyedTree, key []byte) error {
	entries, ok := policy.DescriptorEntries(key)
	if !ok {
		return nil
	}
	m, err := checks.MatchDescriptor(&t.matcher, t.is, entries, s.now)
	if err != nil || m.Outcome != policy.Counted || !bytes.Equal(m.Key, key) {
		return nil
	}
	ready, ok := m.Numbers.Handle.(engine.Ready)
	if !ok {
		if ready, err = s.sess.Ready(checks.EngineLimit(t.is.Descriptors().Limit(), m.Numbers)); err != nil {
			return err
		}
	}
	checks := [...]engine.Check{{Key: m.Key, Hash: m.Hash, Limit: ready, Mode: algo.Shadow}}
	if err := s.sess.CountWindows(s.now, checks[:], []int64{0}, engine.CheckOptions{Peek: true, Anew: true}, t.counted[:]); err != nil {
		return err
	}
	l := t.rules[m.Rule.Index]
	if l.live++; t.counted[0].Units >= m.Limit.Requests {
		l.over++
	}
	return nil
}
