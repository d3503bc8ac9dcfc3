package engine

import (
	"slices"

	"github.com/headgate-io/headgate/shard"
)

const (
	// asideFrom is how many bytes a state has from which a cut encodes it with its
	// shard unlocked: to copy it takes a fraction of the time.
	asideFrom = 4 << 10
	// asideMost bounds the copies of a cut. What passes it is encoded at once.
	asideMost = 16 << 20
)

// aside has copies of the large states that a cut has found dirty, to be encoded
// when others may have the shards and the gate again. It is the cut's own.
type aside struct {
	states []asideState
	buf    []byte
	bytes  int
	used   bool // by the last cut
}

// asideState is a state at the cut, and what it was at the cut before, without a
// state if it was absent then. Its limit stays known until it is encoded.
type asideState struct {
	was, is shard.Image
	it      *interned
}

// put adds a state of a shard whose lock is held. It returns false for one that
// is not large, or that there is no room for.
func (a *aside) put(limits *interner, was, is shard.Image) bool {
	n := len(is.Key) + len(is.State)
	if len(is.State) < asideFrom || a.bytes+n > asideMost {
		return false
	}
	a.buf = slices.Grow(a.buf, n) // what moves leaves its old bytes to who has them
	key := len(a.buf)
	state := key + len(is.Key)
	a.buf = append(append(a.buf, is.Key...), is.State...)
	is.Key, is.State = a.buf[key:state:state], a.buf[state:]
	it := limits.get(is.Meta)
	it.refs.Add(1)
	a.states = append(a.states, asideState{was, is, it})
	a.bytes += n
	return true
}

func (a *aside) empty() bool { return len(a.states) == 0 }

// encode calls fn for each state that has been put aside, and forgets them. The
// memory is kept as long as each cut has a use for it.
func (a *aside) encode(fn func(was, is shard.Image)) {
	for i := range a.states {
		s := &a.states[i]
		fn(s.was, s.is)
		s.it.refs.Add(-1)
	}
	used := len(a.states) > 0
	if !used && !a.used {
		*a = aside{}
	}
	clear(a.states)
	a.states, a.buf, a.bytes, a.used = a.states[:0], a.buf[:0], 0, used
}
