package clock

import (
	"sync"

	"github.com/hashicorp/raft"
)

// arrivalsKept is how many writes are remembered. Raft applies entries a few writes
// later.
const arrivalsKept = 256

// Arrivals remembers when new entries were written. An entry contains the leader's clock at
// a time before the entry arrived. Only entries of the current term are new. Older entries
// say nothing about the time: a new leader may pass on entries of an older term, and others
// were in the log when the node started.
type Arrivals struct {
	// mu guards the fields below.
	mu   sync.Mutex
	ring [arrivalsKept]arrival
	n    int // entries written in all
}

// arrival is a run of entries.
type arrival struct {
	first, last uint64
	at          int64 // time since boot; 0 if they were not new
}

// Note is called before entries are written, with the current term.
func (a *Arrivals) Note(logs []*raft.Log, term uint64, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 0; i < len(logs); {
		run := arrival{first: logs[i].Index}
		fresh := logs[i].Term == term
		if fresh {
			run.at = now
		}
		for ; i < len(logs) && (logs[i].Term == term) == fresh; i++ {
			run.last = logs[i].Index
		}
		a.ring[a.n%arrivalsKept] = run
		a.n++
	}
}

// Of returns when the entry arrived. ok is false if the entry was not new, or is no longer
// remembered.
func (a *Arrivals) Of(index uint64) (at int64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for back := 1; back <= min(a.n, arrivalsKept); back++ {
		if run := &a.ring[(a.n-back)%arrivalsKept]; run.first <= index && index <= run.last {
			return run.at, run.at != 0
		}
	}
	return 0, false
}
