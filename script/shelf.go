package script

import "container/list"

// Bounds of a shelf. Redis has none, and many clients make a script of each
// value that they send.
const (
	shelfScripts = 5000
	shelfBytes   = 32 << 20
	// shelfFree is how many places are made at once, with as large a part of the
	// bytes. So the keeper of the texts hears of several at once.
	shelfFree = 16
	// shelfLooks is how many scripts in use are passed over to find an unused one.
	shelfLooks = 64
)

// shelf has scripts that make room for each other: those go first that have not
// been found for longest, about. It takes bounded time, and finding one costs no
// more than a flag. The Cache's mu guards it.
type shelf struct {
	scripts list.List // of *Script, the next to look at in front
	bytes   int
}

// put adds a script, for which there is room.
func (h *shelf) put(s *Script) {
	s.shelf, s.place = h, h.scripts.PushBack(s)
	h.bytes += s.Size()
}

// take takes a script off.
func (h *shelf) take(s *Script) {
	h.scripts.Remove(s.place)
	h.bytes -= s.Size()
	s.shelf, s.place = nil, nil
}

// makeRoom takes off what has to go for a script of size bytes. One that is
// larger than the shelf has it for itself.
func (h *shelf) makeRoom(size int) (gone []*Script) {
	if h.scripts.Len() < shelfScripts && h.bytes+size <= shelfBytes {
		return nil
	}
	for h.scripts.Len() > shelfScripts-shelfFree || h.scripts.Len() > 0 && h.bytes+size > shelfBytes-shelfBytes/shelfFree {
		s := h.unused()
		h.take(s)
		gone = append(gone, s)
	}
	return gone
}

// unused returns the next script that has not been found since the last look at
// it. If many have been, it returns one of those.
func (h *shelf) unused() *Script {
	for range shelfLooks {
		e := h.scripts.Front()
		if s := e.Value.(*Script); !s.used.Swap(false) {
			return s
		}
		h.scripts.MoveToBack(e)
	}
	return h.scripts.Front().Value.(*Script)
}
