package packed

// replace replaces the del bytes at offset at, within the elements, by ins bytes of any
// content, and returns their offset. The count is left as it is. On an error nothing has
// changed; with ins <= del there is none.
//
// It moves the shorter of the parts before and after, if it has the room.
func (l *List) replace(at, del, ins int) (int, error) {
	first, end := l.bounds()
	if end-first-del+ins > maxContents {
		return 0, ErrTooLarge
	}
	before, behind := at-first, end-at-del
	grow := ins - del
	front, back := first-listHeader, len(l.v)-end
	switch {
	case len(l.v) > 0 && front >= grow && (before < behind || back < grow):
		l.v = l.b.Edit()
		l.place(at, del, ins, first-grow)
	case len(l.v) > 0 && back >= grow:
		l.v = l.b.Edit()
		l.place(at, del, ins, first)
	default:
		need := end - first + grow
		extra := 0
		if need > listSmall {
			extra = slack(need)
		}
		created := len(l.v) == 0
		if n := listHeader + need + extra - len(l.v); n > 0 {
			v, err := l.b.Splice(len(l.v), 0, n)
			if err != nil {
				return 0, err
			}
			l.v = v
		}
		l.v = l.b.Edit()
		if created {
			clear(l.v[:listHeader])
			l.v[0] = byte(ListKind)
			l.set(listFirst, listHeader)
			l.set(listEnd, listHeader)
		}
		// Leave the room where elements have just been added.
		first = listHeader
		if before < behind {
			first += len(l.v) - listHeader - need
		}
		l.place(at, del, ins, first)
	}
	at = l.get(listFirst) + before
	if grow < 0 {
		at -= l.shrink()
	}
	return at, nil
}

// place moves the elements so that they begin at first, with ins bytes in place of the
// del at offset at. There must be room.
func (l *List) place(at, del, ins, first int) {
	old, end := l.bounds()
	before, behind := l.v[old:at], l.v[at+del:end]
	gap := first + len(before)
	if first <= old {
		copy(l.v[first:], before)
		copy(l.v[gap+ins:], behind)
	} else {
		copy(l.v[gap+ins:], behind)
		copy(l.v[first:], before)
	}
	l.set(listFirst, first)
	l.set(listEnd, gap+ins+len(behind))
}

// shrink gives back excess room, and returns by how many bytes it moved the elements to
// the front.
func (l *List) shrink() int {
	first, end := l.bounds()
	need := end - first
	room := len(l.v) - listHeader - need
	if room < 8 || need > listSmall && room < need {
		return 0
	}
	copy(l.v[listHeader:], l.v[first:end])
	l.set(listFirst, listHeader)
	l.set(listEnd, listHeader+need)
	n := listHeader + need
	if n = (n + 7) &^ 7; n < len(l.v) {
		if v, err := l.b.Splice(n, len(l.v)-n, 0); err == nil {
			l.v = v
		}
	}
	return first - listHeader
}
