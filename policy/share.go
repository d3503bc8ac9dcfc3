package policy

// shareRange is for whom of the callers a limit is: those whose place, 0 to 99,
// is from `from` up to but not including `to`.
type shareRange struct{ from, to uint8 }

// everybody is the share of a limit that says none.
var everybody = shareRange{0, 100}

func (r shareRange) partial() bool { return r != everybody }

// has reports whether the caller of a key is in the share. by is the part of the
// key that `by` makes: two limits of the same `by` agree on who is in, and who
// is in stays in when the share grows.
func (r shareRange) has(by []byte) bool {
	place := hundredth(by)
	return place >= r.from && place < r.to
}

// hundredth spreads callers evenly over 0 to 99. It must stay what it is, on all
// nodes and in all versions: FNV-1a, whose high bits depend on the last bytes
// too little, and so a last step of MurmurHash3.
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
