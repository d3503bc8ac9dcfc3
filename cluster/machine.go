package cluster

import (
	"io"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
)

// machine is the replica as the log drives it. Beside passing the calls on, it
// keeps the account of which replies may leave.
type machine struct {
	engine   *engine.Engine
	replica  *engine.Replica
	releases *releases
}

var _ raftlog.Machine = (*machine)(nil)

func (m *machine) Permit(level uint32) { m.replica.Permit(levels[level-1].state) }

func (m *machine) Apply(b raftlog.Batch) error { return m.replica.Apply(b.Payloads, b.Clock) }

func (m *machine) Lead(term uint64, clock int64) { m.replica.Lead(term, clock) }

func (m *machine) Depose(term uint64) { m.replica.Depose(term) }

func (m *machine) Now() int64 { return m.engine.Now() }

func (m *machine) Restore(r io.Reader, clock int64) error { return m.replica.Restore(r, clock) }

// Cut implements raftlog.Machine.
func (m *machine) Cut(seq uint64, max int) ([][]byte, bool) {
	awaited := m.releases.awaited.Swap(false)
	parts, ok := m.replica.Cut(seq, max)
	// The cut's ticket: only Cut and Depose open the next one, and the log
	// calls them one at a time.
	m.releases.cut(seq, m.replica.Ticket()-1, ok, awaited)
	return parts, ok
}

// Committed implements raftlog.Machine.
func (m *machine) Committed(seq uint64) {
	m.replica.Committed(seq)
	m.releases.commit(seq)
}

// Snapshot implements raftlog.Machine.
func (m *machine) Snapshot() (raftlog.Snapshot, error) { return snapshot{m.replica.Snapshot()}, nil }

// snapshot holds nothing that needs to be released.
type snapshot struct{ *engine.Snapshot }

func (snapshot) Release() {}
