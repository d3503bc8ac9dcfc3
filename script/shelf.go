package script

import "container/list"

// Bounds of a shelf. Redis has no such bounds, and many clients make a new script for each
// value that they send.
const (
	shelfScripts = 5000
	shelfBytes   = 32 << 20
	// shelfFree is how many places are freed at once, with the same share of the bytes.
	// So the Store hears of several at once.
	shelfFree = 16
	// shelfLooks is how many used scripts are skipped to find an unused one.
	shelfLooks = 64
)

// shelf holds scripts that displace each other when it is full. The scripts that were not
// found for longest are dropped first, approximately. So dropping takes bounded time, and
// finding a script only sets a flag. The Cache's mu guards the shelf.
type shelf struct {
	scripts list.List // of *Script, the next candidate in front
	bytes   int
}

// put adds a script, for which there is room.
func (h *shelf) put(s *Script) {
	s.shelf, s.place = h, h.scripts.PushBack(s)
	h.bytes += s.Size()
}

// take removes a script.
func (h *shelf) take(s *Script) {
	h.scripts.Remove(s.place)
	h.bytes -= s.Size()
	s.shelf, s.place = nil, nil
}

// makeRoom removes scripts to make room for one of size bytes. A script that is larger
// than the shelf gets the whole shelf.
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

// unused returns the next script that was not found since it was last looked at. If too
// many were found, it returns one of these.
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
