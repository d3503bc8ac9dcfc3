package packed

// AppendMarks appends to dst the offsets of the pieces of a wire form that AppendWire
// wrote, and the end of the last piece. The bytes before the first record or element are
// one piece, and each record or element is one piece.
func AppendMarks(dst []uint32, wire []byte) []uint32 {
	if len(wire) == 0 {
		return append(dst, 0)
	}
	dst = append(dst, 0)
	kind, at := kindOf(wire), 1
	if wire[0]>>smallShift == 0 {
		kind &^= wireLarge
		_, at = length(wire, 1)
	}
	for at < len(wire) {
		dst = append(dst, uint32(at))
		if kind == ListKind {
			_, at = valueAt(wire, at)
		} else {
			at = recordEnd(wire, kind, at)
		}
	}
	return append(dst, uint32(at))
}
