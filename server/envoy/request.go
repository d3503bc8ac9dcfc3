package envoy

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/verdict"
)

// Numbers of the fields of RateLimitRequest and its parts.
const (
	requestDomain      = 1
	requestDescriptors = 2
	requestHits        = 3

	descriptorEntries  = 1
	descriptorLimit    = 2
	descriptorHits     = 3
	descriptorNegative = 4

	entryKey   = 1
	entryValue = 2

	limitRequests   = 1
	limitUnit       = 2
	limitMultiplier = 3

	wrapped = 1 // the value of a UInt32Value or UInt64Value
)

const (
	varint = protowire.VarintType
	bytes  = protowire.BytesType
)

// parse reads a request. Its texts are views of b.
func (x *exchange) parse(b []byte) error {
	a := &x.asked
	err := each(b, func(f field) error {
		switch {
		case f.is(requestDomain, bytes):
			a.Domain = f.text()
		case f.is(requestHits, varint):
			a.Hits = uint32(f.n)
		case f.is(requestDescriptors, bytes):
			return x.descriptor(f.b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	from := 0
	for i := range a.Descriptors {
		d, p := &a.Descriptors[i], &x.parts[i]
		d.Entries = x.entries[from:p.entries:p.entries]
		from = p.entries
		if p.limited {
			d.Limit = &p.limit
		}
		if p.refund {
			if !d.HasHits {
				d.Hits, d.HasHits = int64(max(1, a.Hits)), true
			}
			d.Hits = -d.Hits
		}
	}
	return nil
}

// part says where the parts of one descriptor end in the lists of all descriptors.
type part struct {
	entries int // number of entries of this descriptor and of those before
	limited bool
	limit   verdict.RateLimit
	refund  bool
}

var (
	errTooMany        = fmt.Errorf("at most %d descriptors in a request", policy.MaxDescriptors)
	errTooManyEntries = fmt.Errorf("at most %d entries in a descriptor", policy.MaxEntries)
)

// descriptor reads a descriptor.
func (x *exchange) descriptor(b []byte) error {
	if len(x.parts) == policy.MaxDescriptors {
		return errTooMany
	}
	var d verdict.Descriptor
	var p part
	before := len(x.entries)
	err := each(b, func(f field) error {
		switch {
		case f.is(descriptorEntries, bytes):
			if len(x.entries)-before == policy.MaxEntries {
				return errTooManyEntries
			}
			return x.entry(f.b)
		case f.is(descriptorLimit, bytes):
			p.limited = true
			return override(f.b, &p.limit)
		case f.is(descriptorHits, bytes):
			d.HasHits = true
			return number(f.b, func(n uint64) { d.Hits = int64(min(n, math.MaxInt64)) })
		case f.is(descriptorNegative, varint):
			p.refund = f.n != 0
		}
		return nil
	})
	p.entries = len(x.entries)
	x.parts = append(x.parts, p)
	x.asked.Descriptors = append(x.asked.Descriptors, d)
	return err
}

// entry reads an entry of a descriptor. It cuts a value that is too long, because an error
// would let the client's request pass.
func (x *exchange) entry(b []byte) error {
	var e verdict.Attribute
	err := each(b, func(f field) error {
		switch {
		case f.is(entryKey, bytes):
			e.Name = f.text()
		case f.is(entryValue, bytes):
			e.Value = f.text()
		}
		return nil
	})
	e.Value = e.Value[:min(len(e.Value), policy.MaxValue)]
	x.entries = append(x.entries, e)
	return err
}

// override reads a descriptor's own limit.
func override(b []byte, l *verdict.RateLimit) error {
	return each(b, func(f field) error {
		switch {
		case f.is(limitRequests, varint):
			l.Requests = uint32(f.n)
		case f.is(limitUnit, varint):
			l.Unit = units[int32(f.n)]
		case f.is(limitMultiplier, bytes):
			return number(f.b, func(n uint64) { l.Multiplier = uint32(n) })
		}
		return nil
	})
}

// number reads the value of a wrapped number; 0 if it is missing.
func number(b []byte, set func(n uint64)) error {
	set(0)
	return each(b, func(f field) error {
		if f.is(wrapped, varint) {
			set(f.n)
		}
		return nil
	})
}

// units are the names of units, by their numbers in requests and answers. Requests cannot
// have the unit week.
var units = map[int32]string{1: "second", 2: "minute", 3: "hour", 4: "day", 5: "month", 6: "year", 7: "week"}

var unitNumbers = func() map[string]uint64 {
	m := map[string]uint64{}
	for number, name := range units {
		m[name] = uint64(number)
	}
	return m
}()
