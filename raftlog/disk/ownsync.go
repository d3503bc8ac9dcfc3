package disk

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// ownSync lets a leader sync its log while its followers receive and sync the same
// entries (Ongaro's thesis, 10.2.1). Raft's leader would store entries first and then
// send them. When StoreLogs returns, Raft counts the leader as a node that has the
// entries. With ownSync, StoreLogs returns when a batch is written but not yet synced.
// Until the batch is synced, these rules hold for its entries:
//
//   - This node does not apply an entry, and does not report it as committed (see
//     Await).
//   - The transport does not let any follower hear that an entry is committed. If a
//     follower applied the entry and the leader lost it in a power failure, a majority
//     could continue without the entry.
//   - This node does not acknowledge an entry to a later leader. Before it obeys another
//     leader or votes, it must write the term or the vote, and that write waits for the
//     sync (Votes).
//   - Nothing else is written to the log before the sync is complete (Log).
//
// So when an entry counts as committed, it is on this node's disk and on the disks of
// enough followers, as if the leader had synced first.
type ownSync struct {
	// first is the first entry whose sync has not ended; 0 if there is none. It stays set after a
	// failed sync.
	first atomic.Uint64

	// mu guards the fields below.
	mu   sync.Mutex
	done chan struct{} // closed when the sync has ended
	err  error         // its outcome
}

// unsyncedWriter is a log that can write without a sync, as wal.Log.
type unsyncedWriter interface {
	Write(logs []*raft.Log) error
	Sync() error
}

// begin runs sync in the background, for the entries from first on. The previous sync
// must have ended.
func (o *ownSync) begin(first uint64, sync func() error) {
	done := make(chan struct{})
	o.mu.Lock()
	o.done = done
	o.mu.Unlock()
	o.first.Store(first)
	go func() {
		// Let the goroutines that send to the followers run first. They are about to become
		// ready on this processor, which the sync would occupy.
		runtime.Gosched()
		err := sync()
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
		if err == nil {
			o.first.Store(0)
		}
		close(done)
	}()
}

// Await waits until the entries up to index are synced.
func (o *ownSync) Await(index uint64) error {
	if first := o.first.Load(); first == 0 || index < first {
		return nil
	}
	o.mu.Lock()
	done := o.done
	o.mu.Unlock()
	<-done
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Capped returns args with the commit index lowered to at most the last synced entry.
func (o *ownSync) Capped(args *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	first := o.first.Load()
	if first == 0 || args.LeaderCommitIndex < first {
		return args
	}
	c := *args
	c.LeaderCommitIndex = first - 1
	return &c
}
