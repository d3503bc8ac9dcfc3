package engine

import (
	"slices"

	"github.com/headgate-io/headgate/shard"
)

const (
	// asideFrom is the size, in bytes, from which a cut encodes a state after it has
	// unlocked the shard. Under the lock it only copies the state. For a set of 1000,
	// copying takes 5 µs, encoding 80 µs (BenchmarkCutHolds).
	asideFrom = 4 << 10
	// asideMost bounds the copies of a cut, in bytes. Further states are encoded under
	// the lock.
	asideMost = 16 << 20
)

// aside holds copies of large dirty states. The cut encodes them after it has released
// the shards and the gate. Only the cut uses it.
type aside struct {
	states []asideState
	buf    []byte
	bytes  int
	used   bool // by the last cut
}

// asideState is a state at this cut and at the cut before. The earlier one has no state
// if the key was absent then. The limit stays interned until the state is encoded.
type asideState struct {
	was, is shard.Image
	it      *interned
}

// put copies a state; the shard must be locked. It returns false if the state is not
// large or there is no room.
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

// encode calls fn for each copied state, then drops the copies. It releases the memory
// when two cuts in a row had no copies.
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
