package grammar

import "strconv"

// InPieces reads a file in pieces as small as can be, and whole in one: the texts of
// its records, or its errors.
func InPieces(text []byte) (pieces, whole []string, refused bool) {
	read := func(least int) (said []string, refused bool) {
		r := &reader{file: "f"}
		parts := r.parts(text, least)
		if err := r.errs.Result(); err != nil {
			for _, e := range r.errs.List {
				said = append(said, e.Error())
			}
			return said, true
		}
		for _, rec := range parts.records() {
			said = append(said, rec.Name+"\n"+Format(rec))
		}
		return said, false
	}
	pieces, refusedSo := read(1)
	whole, refused = read(len(text) + 1)
	if refused != refusedSo {
		pieces = append(pieces, "(refused: "+strconv.FormatBool(refusedSo)+")")
		refused = false
	}
	return pieces, whole, refused
}

// Cuts returns at how many places a file can be cut, -1 for a file that is
// refused.
func Cuts(text []byte) int {
	c := &cutter{least: 1, top: -1, entries: -1}
	if scan(text, c) != nil {
		return -1
	}
	return len(c.cuts)
}

// Guarded runs what calls the parser of YAML.
func Guarded(f func() error) error { return guarded(f) }
