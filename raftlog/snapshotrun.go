package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotPatience bounds how long a question about a snapshot waits for its
// end. It is less than a request's bound, and short enough to report progress
// to the caller.
const snapshotPatience = 2 * time.Second

// SnapshotRun is the state of a snapshot that was asked for.
type SnapshotRun struct {
	Run     int64         `json:"run"` // names it to the node that writes it, until that is started again
	Done    bool          `json:"done"`
	Nothing bool          `json:"nothing"`         // the node holds nothing to write
	Error   string        `json:"error,omitempty"` // why it has failed
	Index   uint64        `json:"index"`           // of the last entry in it, when it is done
	Took    time.Duration `json:"took"`            // so far
}

// errUnknownRun is returned for a snapshot that another life of the node was
// writing.
var errUnknownRun = errors.New("this node is not writing that snapshot: it has restarted, or writes another one; status shows the last one")

// snapshotRuns holds the last snapshot that was asked for. It goes on when
// nobody waits for it: a large one takes longer than any request.
type snapshotRuns struct {
	// mu guards what follows.
	mu    sync.Mutex
	last  SnapshotRun
	began time.Time
	ended chan struct{} // closed at the end of the last one
}

// ask starts a snapshot, if run is 0 and none is being written, and waits a
// while for its end.
func (s *snapshotRuns) ask(ctx context.Context, g *Group, run int64) (SnapshotRun, error) {
	s.mu.Lock()
	if run == 0 && (s.ended == nil || s.last.Done) {
		s.began, s.ended = time.Now(), make(chan struct{})
		s.last = SnapshotRun{Run: s.began.UnixNano()}
		g.wg.Go(func() { s.write(g) })
	}
	if run != 0 && run != s.last.Run {
		s.mu.Unlock()
		return SnapshotRun{}, errUnknownRun
	}
	ended := s.ended
	s.mu.Unlock()
	t := time.NewTimer(snapshotPatience)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.last
	if !r.Done {
		r.Took = time.Since(s.began)
	}
	return r, nil
}

func (s *snapshotRuns) write(g *Group) {
	err := g.writeSnapshot(g.ctx)
	index := g.Status().SnapshotIndex
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.last
	r.Done, r.Took, r.Index = true, time.Since(s.began), index
	switch {
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		r.Nothing = true
	case err != nil:
		r.Error = err.Error()
	}
	close(s.ended)
}
