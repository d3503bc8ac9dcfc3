package policy

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math/bits"
	"net/netip"
)

// Errors of the attributes of a call. Their texts carry no prefix.
var (
	errTooManyAttributes = fmt.Errorf("at most %d attributes in a call", MaxAttributes)
	errValueTooLong      = fmt.Errorf("the value of an attribute has at most %d bytes", MaxValue)
	errUnits             = errors.New("COST must be 0 or more")
	errManyUnits         = fmt.Errorf("COST must be at most %d", int64(MaxUnits))
)

// Call holds the attributes of a check, and finds the limits that apply. One Call is used
// for one check after another. When its buffers have grown, only errors and Explain
// allocate.
type Call struct {
	// Units is the COST of the call, from 0 to 2^62-1. Begin sets Units to 1. If Units is
	// 0, the call costs 0 at every limit.
	Units int64
	// After Match has returned Decide, Applied holds the limits that apply, in the policy's
	// order.
	Applied []Applied
	// Skipped has bit i set if limit i did not apply because an attribute that the limit
	// needs is missing.
	Skipped uint32
	// Rule is the index of the entry of `deny` or `allow` that matched.
	Rule int

	policy  *Policy
	given   int    // attributes, including those that the policy does not know
	present uint32 // attributes that have a value
	twice   uint32 // attributes that were given, including empty ones, to find one that is given twice
	absent  int8   // the attribute that the call lacks for the limit that Match has looked at last

	values  [MaxAttributes][]byte     // values, converted by their types; values of type ip are as given
	addrs   [MaxAttributes]netip.Addr // addresses: the values of attributes of type ip
	unknown [][]byte                  // names of attributes that the policy does not know

	keys []byte // the keys of Applied, one after the other
	// Limits with the same `by` have keys that are equal after their prefixes. tails says
	// where in keys this common part is, by Limit.like. tailed has a bit for each tail that
	// exists.
	tails   [MaxLimits]struct{ from, to int32 }
	tailed  uint32
	scratch []byte // memory for values that the conversion has changed
	lookup  []byte // scratch for the key with which a tier is looked up

	mac    hash.Hash // computes the hashes of values of type secret
	secret []byte    // the key of mac
	sum    [sha256.Size]byte

	slots  [MaxLimits]Applied
	scaled []Numbers // numbers of limits, while a scale is in effect
}

// Applied is a limit that applies to a call.
type Applied struct {
	Limit *Limit
	// Numbers are the numbers in effect, after tiers, overrides and scale. Their mode is
	// Enforce, Soft or Shadow, and their rate is Limited or Blocked.
	Numbers *Numbers
	// Cost is in the limit's units.
	Cost int64
	// Key is the counter's key, and Hash its hash by the set's seed.
	Key  []byte
	Hash uint64
	// Missing reports that the call lacks an attribute that the limit needs, and that the
	// limit denies such calls. Then there is no key.
	Missing bool
	Source  Source

	from int // where Key begins in the call's keys
}

// NewCall returns a call; Begin assigns it a policy.
func NewCall() *Call {
	return &Call{
		keys:    make([]byte, 0, 1<<10),
		scratch: make([]byte, 0, 256),
	}
}

// Begin makes c a call of p without attributes.
func (c *Call) Begin(p *Policy) {
	c.policy, c.Units, c.Rule = p, 1, 0
	c.given, c.present, c.twice, c.Skipped = 0, 0, 0, 0
	c.unknown, c.scratch = c.unknown[:0], c.scratch[:0]
	c.Applied = c.slots[:0]
}

// maxScratch is how much room for changed values a call keeps. Values may be long, and
// every session has a call.
const maxScratch = 16 << 10

// End drops the references to the policy and to the caller's bytes, and releases large
// buffers. Results of the call become invalid. Begin may follow without End.
func (c *Call) End() {
	if c.policy == nil {
		return
	}
	clear(c.slots[:len(c.policy.Limits)])
	clear(c.values[:len(c.policy.attrs.names)])
	clear(c.unknown[:cap(c.unknown)])
	c.policy, c.Applied, c.unknown, c.present = nil, nil, c.unknown[:0], 0
	if cap(c.scratch) > maxScratch {
		c.scratch = nil
	}
}

// Set sets an attribute of the call. The call keeps references to name and value. An empty
// value means that the attribute is absent. It returns an error for an invalid or repeated
// name, for more than MaxAttributes, and for a value that is longer than MaxValue or not of
// the attribute's type.
func (c *Call) Set(name, value []byte) error { return c.set(name, value, false) }

// SetPrinted does the same as Set for a value in its printed form: `~` and 32 hex digits
// for a secret, the network for an address.
func (c *Call) SetPrinted(name, value []byte) error { return c.set(name, value, true) }

func (c *Call) set(name, value []byte, printed bool) error {
	if c.given++; c.given > MaxAttributes {
		return errTooManyAttributes
	}
	if len(value) > MaxValue {
		return errValueTooLong
	}
	i := c.policy.attrs.index(name)
	if i < 0 {
		return c.setUnknown(name)
	}
	bit := uint32(1) << i
	if c.twice&bit != 0 {
		return fmt.Errorf("attribute '%s' is given twice", name)
	}
	c.twice |= bit
	if len(value) == 0 {
		return nil
	}
	if t := c.policy.attrs.types[i]; t != 0 {
		var err error
		if value, err = c.convert(i, t, value, printed); err != nil {
			return err
		}
	}
	c.values[i] = value
	c.present |= bit
	return nil
}

// setUnknown checks the name of an attribute that the policy does not know.
func (c *Call) setUnknown(name []byte) error {
	if err := CheckAttributeName(viewText(name)); err != nil {
		return err
	}
	for _, u := range c.unknown {
		if bytes.Equal(u, name) {
			return fmt.Errorf("attribute '%s' is given twice", name)
		}
	}
	c.unknown = append(c.unknown, name)
	return nil
}

// convert returns a value as converted by its type.
func (c *Call) convert(i int, t Type, value []byte, printed bool) ([]byte, error) {
	if t&IP != 0 {
		a, ok := parseAddr(viewText(value))
		if !ok && printed {
			network, err := parseNetwork(viewText(value))
			a, ok = network.Addr(), err == nil
		}
		if !ok {
			return nil, fmt.Errorf("attribute '%s' is not an IP address", c.policy.attrs.names[i])
		}
		c.addrs[i] = a
		return value, nil // nobody asks for its text
	}
	if printed && t&Secret != 0 && isDigest(value) {
		return value, nil
	}
	from := len(c.scratch)
	if t&Lower != 0 {
		c.scratch = appendLower(c.scratch, value)
		value, from = c.scratch[from:], len(c.scratch)
	}
	if t&Secret != 0 {
		c.scratch = c.appendSecret(c.scratch, value)
		value = c.scratch[from:]
	}
	return value, nil
}

// Unused returns the names of attributes of the call that the policy does not know. The
// result is valid until the next Begin.
func (c *Call) Unused() [][]byte { return c.unknown }

// attribute returns the name of the first attribute of a mask.
func (p *Policy) attribute(mask uint32) string {
	return p.attrs.names[bits.TrailingZeros32(mask)]
}

// appendSecret appends the digest of a secret value.
func (c *Call) appendSecret(dst, value []byte) []byte {
	if key := c.policy.secret; c.mac == nil || !bytes.Equal(c.secret, key) {
		c.mac, c.secret = hmac.New(sha256.New, key), key
	}
	c.mac.Reset()
	c.mac.Write(value)
	return appendDigest(dst, c.mac.Sum(c.sum[:0]))
}
