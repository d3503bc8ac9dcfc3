package policy

import (
	"errors"
	"strconv"
	"strings"
)

// ShareRange is the part of callers to whom a limit applies. Each caller has a place from 0
// to 99; the limit applies if the place is at least From and below To.
type ShareRange struct{ From, To uint8 }

// Everybody is the share of a limit that sets none.
var Everybody = ShareRange{0, 100}

// Partial reports whether the share leaves callers out.
func (r ShareRange) Partial() bool { return r != Everybody }

// has reports whether the caller of a key is in the share. keyPart is the part of the key
// that comes from `by`. Limits with the same `by` select the same callers. When a share grows,
// callers who were in it stay in it.
func (r ShareRange) has(keyPart []byte) bool {
	place := hundredth(keyPart)
	return place >= r.From && place < r.To
}

// hundredth returns a caller's place, and spreads callers evenly over 0 to 99. It must
// never change, on any node and in any version. It is FNV-1a with a last step of
// MurmurHash3, because the high bits of FNV-1a depend too little on the last bytes.
func hundredth(by []byte) uint8 {
	h := uint64(14695981039346656037)
	for _, b := range by {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return uint8(h >> 32 * 100 >> 32)
}

// String returns the share in the grammar's form.
func (r ShareRange) String() string {
	s := strconv.Itoa(int(r.To)) + "%"
	if r.From != 0 {
		s = strconv.Itoa(int(r.From)) + "-" + s
	}
	return s
}

var errShare = errors.New("is not a share such as 10%, or a range such as 10-100%")

// ParseShare reads a share of callers, such as 10% or 10-100%. If it returns an error, the
// range is that of all callers.
func ParseShare(s string) (ShareRange, error) {
	body, percent := strings.CutSuffix(s, "%")
	from, to, both := strings.Cut(body, "-")
	if !both {
		from, to = "0", from
	}
	a, errA := parseBits(from)
	b, errB := parseBits(to)
	if !percent || errA != nil || errB != nil || a >= b || b > 100 {
		return Everybody, errShare
	}
	return ShareRange{uint8(a), uint8(b)}, nil
}
