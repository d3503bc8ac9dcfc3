package cluster

import (
	"io"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
)

// machine is the replica in the form that the log calls.
type machine struct {
	engine  *engine.Engine
	replica *engine.Replica
	led     func() // called when sessions may decide
}

var _ raftlog.Machine = (*machine)(nil)

func (m *machine) Permit(level uint32) { m.replica.Permit(levels[level-1].state) }

func (m *machine) Apply(b raftlog.Batch) error { return m.replica.Apply(b.Payloads, b.Clock) }

func (m *machine) Lead(clock int64) {
	m.replica.Lead(clock)
	m.led()
}

func (m *machine) Depose() { m.replica.Depose() }

func (m *machine) Cut(max int) ([][]byte, bool) { return m.replica.Cut(max) }

func (m *machine) Now() int64 { return m.replica.Now() }

func (m *machine) Committed(clock int64) { m.replica.Committed(clock) }

func (m *machine) Restore(r io.Reader, clock int64) error { return m.replica.Restore(r, clock) }

// Snapshot implements raftlog.Machine.
func (m *machine) Snapshot() (raftlog.Snapshot, error) { return snapshot{m.replica.Snapshot()}, nil }

// snapshot holds nothing that needs to be released.
type snapshot struct{ *engine.Snapshot }

func (snapshot) Release() {}
