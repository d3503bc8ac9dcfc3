package verdict

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
)

// Descriptors is an RL.DESCRIPTORS: a request of Envoy to its rate limit service.
type Descriptors struct {
	Domain string
	// Hits is hits_addend of the request; 0 counts as 1.
	Hits        uint32
	Descriptors []Descriptor
	Peek        bool
	Sync        Sync
	// Fail is open, closed or local. "" leaves the choice to the policy.
	Fail string
}

// Descriptor is one descriptor of a request.
type Descriptor struct {
	Entries []Attribute
	// Hits is the descriptor's own number of hits, if HasHits is set. A negative number
	// gives hits back.
	Hits    int64
	HasHits bool
	// Limit replaces the policy's limit; nil keeps it.
	Limit *RateLimit
}

// RateLimit allows a number of requests per Multiplier units. A unit is second, minute,
// hour, day, week, month or year.
type RateLimit struct {
	Requests   uint32
	Unit       string
	Multiplier uint32 // 0 means 1
}

// Errors of requests that the command would misread.
var (
	errNoDomain    = errors.New("domain is missing")
	errDescriptors = fmt.Errorf("a request must have 1 to %d descriptors", policy.MaxDescriptors)
	errEntries     = fmt.Errorf("a descriptor has 1 to %d entries", policy.MaxEntries)
	errUnit        = errors.New("the unit of a limit is second, minute, hour, day, week, month or year")
)

// maxHits bounds the hits of a descriptor.
const maxHits = 1<<62 - 1

// Append appends the request as RL.DESCRIPTORS to a pipeline of commands. Hits are cut to
// ±(2^62-1). It returns an error for a request without a domain or descriptors, with too
// many descriptors or entries, or with an unknown unit. The command finds all other errors.
func (d *Descriptors) Append(dst []byte) ([]byte, error) {
	if d.Domain == "" {
		return dst, errNoDomain
	}
	if n := len(d.Descriptors); n == 0 || n > policy.MaxDescriptors {
		return dst, errDescriptors
	}
	n := 4
	for i := range d.Descriptors {
		x := &d.Descriptors[i]
		if len(x.Entries) == 0 || len(x.Entries) > policy.MaxEntries {
			return dst, errEntries
		}
		if x.Limit != nil {
			if _, ok := policy.ParseUnit(x.Limit.Unit); !ok {
				return dst, errUnit
			}
		}
		n += 3 + 2*len(x.Entries)
	}
	for _, option := range [...]bool{d.Peek, d.Sync != SyncPolicy, d.Fail != "", d.Fail != ""} {
		if option {
			n++
		}
	}
	dst = appendHeader(dst, '*', n)
	dst = appendArgument(appendArgument(dst, "RL.DESCRIPTORS"), d.Domain)
	dst = appendInt(appendInt(dst, int64(d.Hits)), int64(len(d.Descriptors)))
	for i := range d.Descriptors {
		dst = d.Descriptors[i].append(dst)
	}
	if d.Peek {
		dst = appendArgument(dst, "PEEK")
	}
	dst = appendSync(dst, d.Sync)
	if d.Fail != "" {
		dst = appendArgument(appendArgument(dst, "FAIL"), d.Fail)
	}
	return dst, nil
}

func (d *Descriptor) append(dst []byte) []byte {
	dst = appendAttributes(appendInt(dst, int64(len(d.Entries))), d.Entries)
	if d.HasHits {
		dst = appendInt(dst, min(max(d.Hits, -maxHits), maxHits))
	} else {
		dst = appendArgument(dst, "-")
	}
	if d.Limit == nil {
		return appendArgument(dst, "-")
	}
	text := strconv.FormatUint(uint64(d.Limit.Requests), 10) + "/" + strings.ToLower(d.Limit.Unit)
	if d.Limit.Multiplier > 1 {
		text += "*" + strconv.FormatUint(uint64(d.Limit.Multiplier), 10)
	}
	return appendArgument(dst, text)
}

// UnlimitedRemaining is the Remaining of a Status without a limit.
const UnlimitedRemaining = math.MaxUint32

// Ruling is the reply of RL.DESCRIPTORS. Its byte slices are views of the reply.
type Ruling struct {
	// Over reports that the overall code is OVER_LIMIT.
	Over bool
	// Binding is the position of the descriptor whose numbers the answer shows; -1 if there
	// is none. It is the last descriptor that denies the request, or else the one with the
	// least remaining.
	Binding  int
	Reason   []byte
	Version  int64
	Statuses []Status // in the order of the descriptors
	// Degraded reports that the failure policy has answered, because there was no leader.
	Degraded bool
}

// Status is the result of one descriptor.
type Status struct {
	Over bool // the descriptor's code is OVER_LIMIT
	// Limited reports that a limit counts the descriptor: Requests per Multiplier Units.
	// Unit is nil if the limit's period is not a whole number of any unit.
	Limited              bool
	Requests, Multiplier int64
	Unit                 []byte
	Name                 []byte // the limit's name; nil if it has none
	Remaining            int64
	// ResetMS is the time until the window ends or the bucket is full. RetryMS is the time
	// until a denied request could pass, or Never. Both are in ms, and 0 without a limit.
	ResetMS, RetryMS int64
	// Exceeded reports that there are more hits than the limit allows, whether or not that
	// denies the request.
	Unlimited, Shadow, Quota, Exceeded, Replaced, Unmatched bool
	// Metadata is a JSON object from a rule that the descriptor matched; nil if there is
	// none.
	Metadata []byte
}

// Read reads the first reply of replies and returns the rest, in the same way as
// Verdict.Read.
func (v *Ruling) Read(replies []byte) (rest []byte, err error) {
	*v = Ruling{Binding: -1, Statuses: v.Statuses[:0]}
	r := reader{b: replies}
	if err := r.failure(); err != nil {
		return r.b, err
	}
	for range r.size('%') {
		switch name := r.text(); string(name) {
		case "code":
			v.Over = r.over()
		case "binding":
			v.Binding = int(r.number())
		case "reason":
			v.Reason = r.text()
		case "version":
			v.Version = r.number()
		case "descriptors":
			for range r.size('*') {
				v.Statuses = append(v.Statuses, Status{})
				r.status(&v.Statuses[len(v.Statuses)-1])
			}
		case "degraded":
			v.Degraded = string(r.line()) == "#t"
		default:
			r.skip()
		}
	}
	if r.malformed || v.Binding < -1 || v.Binding >= len(v.Statuses) {
		return nil, resp.MalformedReply(replies[:min(len(replies), 32)])
	}
	return r.b, nil
}

// over reads a code, and reports whether it is OVER_LIMIT.
func (r *reader) over() bool { return string(r.text()) == "over_limit" }

// status reads the result of one descriptor.
func (r *reader) status(s *Status) {
	for range r.size('%') {
		switch name := r.text(); string(name) {
		case "code":
			s.Over = r.over()
		case "limit":
			s.Requests = r.number()
			s.Limited = s.Requests >= 0
		case "unit":
			s.Unit = r.text()
		case "multiplier":
			s.Multiplier = r.number()
		case "name":
			s.Name = r.text()
		case "remaining":
			s.Remaining = r.number()
		case "reset_ms":
			s.ResetMS = r.number()
		case "retry_after_ms":
			s.RetryMS = r.number()
		case "flags":
			for range r.size('*') {
				s.flag(r.text())
			}
		case "metadata":
			s.Metadata = r.text()
		default:
			r.skip()
		}
	}
}

// flag sets the field that a word names. It ignores an unknown word, which a leader of a
// later release may send.
func (s *Status) flag(word []byte) {
	switch string(word) {
	case "unlimited":
		s.Unlimited = true
	case "shadow":
		s.Shadow = true
	case "quota":
		s.Quota = true
	case "exceeded":
		s.Exceeded = true
	case "replaced":
		s.Replaced = true
	case "unmatched":
		s.Unmatched = true
	}
}
