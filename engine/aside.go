package engine

import (
	"slices"

	"github.com/headgate-io/headgate/shard"
)

const (
	// asideFrom is the size, in bytes, from which a cut encodes a state with its shard
	// unlocked. A copy takes a fraction of the time: 5 µs of 80 for a set of 1000
	// (BenchmarkCutHolds).
	asideFrom = 4 << 10
	// asideMost bounds the copies of a cut, in bytes. States beyond it are encoded at
	// once.
	asideMost = 16 << 20
)

// aside holds copies of the large states that a cut has found dirty. The cut encodes them
// after it has released the shards and the gate. Only the cut uses it.
type aside struct {
	states []asideState
	buf    []byte
	bytes  int
	used   bool // by the last cut
}

// asideState is a state at the cut and at the cut before. The earlier one has no state if
// the key was absent then. Its limit stays interned until it is encoded.
type asideState struct {
	was, is shard.Image
	it      *interned
}

// put copies a state of a shard whose lock is held. It returns false if the state is not
// large, or finds no room.
func (a *aside) put(limits *interner, was, is shard.Image) bool {
	n := len(is.Key) + len(is.State)
	if len(is.State) < asideFrom || a.bytes+n > asideMost {
		return false
	}
	a.buf = slices.Grow(a.buf, n) // earlier copies stay valid: they refer to the old array
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

// encode calls fn for each copied state, then drops the copies. It keeps the memory while
// every cut uses it.
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
