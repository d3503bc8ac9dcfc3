package checks

import (
	"fmt"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// MatchDescriptor returns the rule and the counter of one descriptor at a time. pairs are
// its entries.
func MatchDescriptor(matcher *policy.Descriptor, p *policy.Policy, pairs [][]byte, now int64) (*policy.Matched, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("ERR key '%s' has no value", command.Clip(pairs[len(pairs)-1], command.ErrorClip))
	}
	matcher.Begin(p, 1, now)
	err := matcher.Add(&policy.Asked{Entries: pairs})
	if err == nil {
		err = matcher.Finish()
	}
	if err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	return &matcher.Matched[0], nil
}

// descriptorKeyOf returns the key of the counter of one descriptor, none if it has no
// counter. pairs are its entries.
func descriptorKeyOf(p *policy.Policy, pairs [][]byte) [][]byte {
	var matcher policy.Descriptor
	m, err := MatchDescriptor(&matcher, p, pairs, 0) // no scale changes a key
	if err != nil || m.Outcome != policy.Counted {
		return nil
	}
	return [][]byte{m.Key}
}

// descriptorKeys returns the keys of the counters that an RL.DESCRIPTORS charges, none
// after an error.
func (c *Checker) descriptorKeys(args [][]byte, now int64) (keys [][]byte) {
	p := c.book.Set().Policy(args[1])
	var x descriptorMemory // not a session's: the returned keys outlast the command
	if p == nil || x.args.parse(args[1:]) != nil {
		return nil
	}
	if p.Descriptors() == nil {
		return x.limitKeys(p, now)
	}
	x.matcher.Begin(p, x.args.hits, now)
	for i := range x.args.asked {
		if x.matcher.Add(&x.args.asked[i]) != nil {
			return nil
		}
	}
	if x.matcher.Finish() != nil {
		return nil
	}
	for i := range x.matcher.Matched {
		if m := &x.matcher.Matched[i]; m.Outcome == policy.Counted {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// descriptorSecrets returns the arguments of RL.DESCRIPTORS that must not be shown.
func (c *Checker) descriptorSecrets(args [][]byte, at []int) []int {
	var a descriptorArgs
	if len(args) < 4 || a.parse(args[1:]) != nil { // any of them may be a secret
		for i := 4; i < len(args); i++ {
			at = append(at, i)
		}
		return at
	}
	from := 4
	for i := range a.asked {
		n := len(a.asked[i].Entries)
		at = c.book.Hide(args[1], args[:from+1+n], from+1, at)
		from += 1 + n + 2
	}
	return at
}
