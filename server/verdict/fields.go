package verdict

import (
	"math/bits"
	"strconv"
	"time"
)

// # Header fields of a verdict
//
// RateLimit and RateLimit-Policy are the fields of draft-ietf-httpapi-ratelimit-headers-10.
// Their values are lists of RFC 9651. The draft's next revision renames parameters; the
// constants below are the only places with these names.
const (
	fieldLimits    = "RateLimit"
	fieldPolicies  = "RateLimit-Policy"
	fieldRetry     = "Retry-After"
	paramQuota     = `";q=` // in RateLimit-Policy: the quota,
	paramWindow    = `;w=`  // and the window in seconds
	paramRemaining = `";r=` // in RateLimit: the remaining units,
	paramReset     = `;t=`  // and the seconds until these change
)

const (
	// maxItems bounds the limits in a field. The limit that decides the call comes first. A
	// proxy has about 4 KiB for all header fields of an answer.
	maxItems = 8
	// maxStructured is the largest integer of RFC 9651.
	maxStructured = 999_999_999_999_999
)

// Fields are the header fields of a verdict, in the order of FieldNames; "" means that the
// field is left out.
type Fields [len(FieldNames)]string

// FieldNames are the names of fields, in the form of net/http.
var FieldNames = [...]string{fieldPolicies, fieldLimits, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", fieldRetry}

// Fields returns the header fields of a verdict: the results of the limits, and when to
// retry. asked is the time at which the front asked for the verdict. key is a number that
// is constant for a caller.
func (v *Verdict) Fields(asked time.Time, key uint64) (f Fields) {
	var room [768]byte
	b := room[:0]
	var ends [len(FieldNames)]int
	binding := v.Binding()
	if binding == nil && v.Name != nil { // the call was repeated: the reply has no limits
		binding = &Limit{Decision: v.Decision, Name: v.Name, Mode: []byte("enforce")}
	}
	b = appendItems(b, v, binding, appendQuota)
	ends[0] = len(b)
	b = appendItems(b, v, binding, appendRemaining)
	ends[1] = len(b)
	if binding != nil {
		b = strconv.AppendInt(b, binding.Limit, 10)
		ends[2] = len(b)
		b = strconv.AppendInt(b, max(0, binding.Remaining), 10)
		ends[3] = len(b)
		b = strconv.AppendInt(b, resetAt(asked, &binding.Decision), 10)
		ends[4] = len(b)
	}
	if !v.Allowed && v.RetryAfter >= 0 {
		b = strconv.AppendInt(b, retryAfter(v.RetryAfter, key), 10)
		ends[5] = len(b)
	}
	text := string(b)
	from := 0
	for i, to := range ends {
		if to > from {
			f[i] = text[from:to]
			from = to
		}
	}
	return f
}

// appendItems appends a list with one item for each enforced limit. item appends the item
// of a limit.
func appendItems(b []byte, v *Verdict, binding *Limit, item func([]byte, *Limit) []byte) []byte {
	if binding == nil {
		return b
	}
	b = item(b, binding)
	n := 1
	for i := range v.Limits {
		if l := &v.Limits[i]; l != binding && l.Enforced() && n < maxItems {
			b = item(append(b, ", "...), l)
			n++
		}
	}
	return b
}

func appendQuota(b []byte, l *Limit) []byte {
	b = append(append(append(b, '"'), l.Name...), paramQuota...)
	b = strconv.AppendInt(b, structured(l.Limit), 10)
	if l.Window <= 0 || l.Window%1000 != 0 { // a field's window must be whole seconds
		return b
	}
	return strconv.AppendInt(append(b, paramWindow...), structured(l.Window/1000), 10)
}

func appendRemaining(b []byte, l *Limit) []byte {
	b = append(append(append(b, '"'), l.Name...), paramRemaining...)
	b = strconv.AppendInt(b, structured(l.Remaining), 10)
	wait := l.ResetAfter
	if !l.Allowed {
		if wait = l.RetryAfter; wait < 0 { // waiting does not help
			return b
		}
	}
	return strconv.AppendInt(append(b, paramReset...), structured(Seconds(wait)), 10)
}

// structured returns the nearest integer from 0 to maxStructured.
func structured(n int64) int64 { return min(max(0, n), maxStructured) }

// Seconds returns milliseconds in whole seconds, rounded up.
func Seconds(ms int64) int64 {
	s := ms / 1000
	if ms%1000 > 0 {
		s++
	}
	return s
}

// resetAt returns when a limit is full again, in Unix seconds, rounded up. It counts from
// the time asked, in whole ms. If it counted from the answer, a window that ends on a full
// second would be rounded up to the next second.
func resetAt(asked time.Time, d *Decision) int64 {
	ms := asked.UnixMilli()
	if after := max(0, d.ResetAfter); after < 1<<62 {
		ms += after
	}
	return Seconds(ms)
}

const (
	// jitter is the most milliseconds that Retry-After adds to the wait. If a tenth of the
	// wait is more, that is the most. So callers who are denied together do not return
	// together.
	jitter      = 2000
	jitterShare = 10
)

// retryAfter returns Retry-After for a wait in milliseconds. It is in whole seconds,
// rounded up, at least 1 and never shorter than the wait. The jitter depends only on key,
// so a caller that asks again gets the same time.
func retryAfter(wait int64, key uint64) int64 {
	if wait > 1<<53 { // too long for the jitter to matter
		return wait / 1000
	}
	more, _ := bits.Mul64(key, uint64(max(jitter, wait/jitterShare)))
	return max(1, Seconds(wait+int64(more)))
}

// Key returns a number for a caller of a policy, from the caller's attributes. Their order
// does not matter.
func (c *Call) Key() uint64 {
	sum := mix(hash(offset64, c.Policy))
	for i := range c.Attributes {
		sum += mix(hash(hash(offset64, c.Attributes[i].Name)^0xff, c.Attributes[i].Value))
	}
	return mix(sum)
}

// offset64 and prime64 are the constants of FNV-1a.
const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// hash continues an FNV-1a hash with a text. The result is the same on every node.
func hash(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime64
	}
	return h
}

// mix spreads a hash over all bits: the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
