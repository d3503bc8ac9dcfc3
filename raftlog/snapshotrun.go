package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotPatience bounds how long a request about a snapshot waits for the snapshot's end.
// It is shorter than a request may take, so that the caller can report progress.
const snapshotPatience = 2 * time.Second

// SnapshotRun is the state of a requested snapshot.
type SnapshotRun struct {
	Run     int64         `json:"run"` // identifies the run on its node until the node restarts
	Done    bool          `json:"done"`
	Nothing bool          `json:"nothing"`         // the node has nothing to write
	Error   string        `json:"error,omitempty"` // why the snapshot has failed
	Index   uint64        `json:"index"`           // index of the last entry in the snapshot, when it is done
	Took    time.Duration `json:"took"`            // time that the snapshot has taken so far
}

// errUnknownRun is returned for a snapshot that this process is not writing.
var errUnknownRun = errors.New("this node is not writing that snapshot: the node has restarted, or writes another snapshot; status shows the last one")

// snapshotRuns holds the last requested snapshot. The snapshot continues when nobody waits
// for it, because a large snapshot takes longer than any request.
type snapshotRuns struct {
	// mu guards the fields below.
	mu    sync.Mutex
	last  SnapshotRun
	began time.Time
	ended chan struct{} // closed at the end of the last one
}

// ask starts a snapshot if run is 0 and none is being written. It waits a while for the
// snapshot's end.
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
