package policy

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"time"
)

// Asked is a descriptor of a request.
type Asked struct {
	// Entries are keys and values, in turn.
	Entries [][]byte
	// If HasHits is set, Hits is this descriptor's number of hits; a negative number gives
	// hits back. Otherwise the request's number of hits counts.
	Hits    int64
	HasHits bool
	// Limit replaces the matching rule, if Limit.Unit is set.
	Limit AskedLimit
}

// AskedLimit is a limit that a request brings: Requests in Multiplier units.
type AskedLimit struct {
	Requests   int64
	Unit       Unit
	Multiplier int64
}

// Outcome is the result for a descriptor before its counter decides.
type Outcome uint8

const (
	// Counted: its counter decides.
	Counted Outcome = iota
	// Unmatched: no limit matches it.
	Unmatched
	// Open: its rule is unlimited.
	Open
	// Replaced: another rule of the request replaces its own.
	Replaced
)

// Matched is what applies to a descriptor.
type Matched struct {
	Outcome Outcome
	// Rule is nil if no rule matches, or if the request brings its own limit.
	Rule *Rule
	// Limit is the limit in effect, after a scale, if Outcome is Counted. Numbers are the
	// numbers of the limit's counter, and Hits are added to that counter.
	Limit   AskedLimit
	Numbers *Numbers
	Hits    int64
	// Key is the counter's key, and Hash its hash by the set's seed.
	Key  []byte
	Hash uint64

	from, to int // where Key begins and ends in the call's keys
}

// Descriptor finds the limits that apply to the descriptors of a request. One Descriptor is
// used for one request after another. When its buffers have grown, only limits that
// requests bring allocate.
type Descriptor struct {
	// Matched has the results in the order of Add. Finish completes them.
	Matched []Matched

	policy *Policy
	hits   int64
	now    int64
	keys   []byte
	scaled []Numbers // limits of Matched, while a scale is in effect
	name   []byte    // scratch: key_value
	shared [MaxEntries]*level
	// compared is how many bytes of the request were compared with patterns: see
	// MaxCompared.
	compared int
	// replaced has, by the number of a name, the last request that replaced this name.
	replaced []uint64
	request  uint64
}

// Errors of descriptors.
var (
	errManyDescriptors = fmt.Errorf("a request must have 1 to %d descriptors", MaxDescriptors)
	errEntries         = fmt.Errorf("a descriptor has 1 to %d entries", MaxEntries)
	errCompared        = fmt.Errorf("the values of the request are too long for the patterns of its policy, which compare at most %d bytes", MaxCompared)
	errEntryKey        = fmt.Errorf("the key of an entry has 1 to %d bytes", MaxEntryKey)
)

// Begin prepares c for a request at the time now to p, a policy with descriptors. hits is
// the request's hits_addend; 0 counts as 1.
func (c *Descriptor) Begin(p *Policy, hits, now int64) {
	c.policy, c.hits, c.now = p, max(hits, 1), now
	c.Matched, c.keys, c.compared = c.Matched[:0], c.keys[:0], 0
	c.request++
	if n := len(p.descriptors.names); len(c.replaced) < n {
		c.replaced = make([]uint64, n)
		c.request = 1
	}
}

// CheckAsked returns an error if a descriptor of a request is invalid under any policy, or
// nil.
func CheckAsked(a *Asked) error {
	n := len(a.Entries) / 2
	if n == 0 || n > MaxEntries {
		return errEntries
	}
	for i := 0; i < len(a.Entries); i += 2 {
		if k := len(a.Entries[i]); k == 0 || k > MaxEntryKey {
			return errEntryKey
		}
		if len(a.Entries[i+1]) > MaxValue {
			return errValueTooLong
		}
	}
	if l := &a.Limit; l.Unit != NoUnit {
		if _, ok := l.Unit.Period(l.Multiplier); !ok {
			return errPeriod
		}
	}
	return nil
}

// Add adds a descriptor of the request. It returns the errors of CheckAsked, an error for
// more than MaxDescriptors, and an error if patterns cost more than MaxCompared for this
// and all earlier descriptors.
func (c *Descriptor) Add(a *Asked) error {
	if len(c.Matched) == MaxDescriptors {
		return errManyDescriptors
	}
	if err := CheckAsked(a); err != nil {
		return err
	}
	c.Matched = append(c.Matched, Matched{Hits: c.hits})
	m := &c.Matched[len(c.Matched)-1]
	if a.HasHits {
		m.Hits = a.Hits
	}
	d := c.policy.descriptors
	if a.Limit.Unit != NoUnit {
		m.Limit = a.Limit
		m.Numbers = &Numbers{Rate: windowRate(a.Limit.Requests, a.Limit.Unit, a.Limit.Multiplier), CostBy: NoAttribute, Cost: 1}
		clear(c.shared[:len(a.Entries)/2])
		c.appendKey(m, a.Entries)
		return nil
	}
	m.Rule = c.find(&d.top, a.Entries)
	if c.compared > MaxCompared {
		return errCompared
	}
	switch {
	case m.Rule == nil:
		m.Outcome = Unmatched
		return nil
	case m.Rule.Unlimited:
		m.Outcome = Open
	default:
		m.Limit, m.Numbers = AskedLimit{m.Rule.Requests, m.Rule.Unit, 1}, m.Rule.numbers
		if s := &c.policy.scale; s.applies(&m.Numbers.Rate, c.now) {
			c.scale(m, s)
		}
		c.appendKey(m, a.Entries)
	}
	for _, name := range m.Rule.replaces {
		c.replaced[name] = c.request
	}
	return nil
}

// scale scales the limit of m. A limit of 0 requests stays, and no limit exceeds the
// largest number of the dialect.
func (c *Descriptor) scale(m *Matched, s *scale) {
	if c.scaled == nil {
		c.scaled = make([]Numbers, MaxDescriptors)
	}
	own := &c.scaled[len(c.Matched)-1]
	*own, m.Numbers = *m.Numbers, own
	m.Limit.Requests = min(percentOf(m.Limit.Requests, s.percent), math.MaxUint32)
	own.Rate, own.Handle = windowRate(m.Limit.Requests, m.Limit.Unit, 1), nil
}

// find looks up a descriptor, level by level. In a level, a literal text goes first, then
// patterns in the order of the text, then a descriptor without a value. find never returns
// to an earlier level, and only the last entry's result counts.
func (c *Descriptor) find(l *level, entries [][]byte) *Rule {
	for i := 0; i < len(entries); i += 2 {
		below := c.step(l, entries[i], entries[i+1])
		if below == nil { // even if an earlier level has a limit
			return nil
		}
		if c.shared[i/2] = nil; below.share {
			c.shared[i/2] = below
		}
		l = below
	}
	return l.rule
}

// step returns the level to which an entry leads, or nil.
func (c *Descriptor) step(l *level, key, value []byte) *level {
	if l.named == nil {
		return nil
	}
	c.name = append(append(append(c.name[:0], key...), '_'), value...)
	if below := l.named[string(c.name)]; below != nil {
		return below
	}
	for i := range l.wild {
		if c.compare(&l.wild[i].pattern) {
			return l.wild[i].level
		}
		if c.compared > MaxCompared {
			return nil
		}
	}
	return l.named[string(key)]
}

// compare reports whether a pattern matches c.name. It adds the cost, and does not
// compare if that would be too high.
func (c *Descriptor) compare(p *pattern) bool {
	c.compared += 2 * costOfPiece // the first and the last
	between, ok := p.between(c.name)
	if ok && len(p.pieces) > 2 {
		c.compared += len(between) + costOfPiece*min(len(p.pieces)-2, len(between))
	}
	return ok && c.compared <= MaxCompared && p.inner(between)
}

// appendKey appends the key of a counter: the policy, the length of the window, and the
// entries. If all values that match a pattern share a counter, the key contains the pattern
// instead of the value.
func (c *Descriptor) appendKey(m *Matched, entries [][]byte) {
	m.from = len(c.keys)
	c.keys = append(c.keys, '@')
	c.keys = append(append(c.keys, c.policy.Name...), ":"+DescriptorsID+";"...)
	c.keys = append(strconv.AppendInt(c.keys, m.Numbers.Rate.Period/int64(time.Second), 10), 's')
	for i := 0; i < len(entries); i += 2 {
		key, value := entries[i], entries[i+1]
		if l := c.shared[i/2]; l != nil {
			key, value = viewOf(l.key), viewOf(l.value)
		}
		c.keys = append(c.keys, ';')
		if bytes.IndexByte(key, '=') >= 0 {
			c.keys = appendHashed(c.keys, key)
		} else {
			c.keys = AppendEscaped(c.keys, key)
		}
		c.keys = AppendEscaped(append(c.keys, '='), value)
	}
	m.to = len(c.keys)
}

// Finish drops rules that other rules of the request replace, and completes the keys. The
// keys are valid until the next Begin.
func (c *Descriptor) Finish() error {
	if len(c.Matched) == 0 {
		return errManyDescriptors
	}
	for i := range c.Matched {
		m := &c.Matched[i]
		if m.Outcome != Counted {
			continue
		}
		if m.Rule != nil && m.Rule.name >= 0 && c.replaced[m.Rule.name] == c.request {
			m.Outcome = Replaced
			continue
		}
		m.Key = c.keys[m.from:m.to:m.to]
		m.Hash = maphash.Bytes(c.policy.seed, m.Key)
	}
	return nil
}

// End releases the policy and large buffers.
func (c *Descriptor) End() {
	clear(c.Matched)
	clear(c.shared[:])
	c.policy, c.Matched = nil, c.Matched[:0]
	if cap(c.keys) > maxScratch {
		c.keys = nil
	}
}
