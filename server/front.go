package server

import (
	"context"

	"github.com/headgate-io/headgate/cluster/partition"
)

// front is the server in the form that its partition calls.
type front struct{ s *Server }

var _ partition.Front = front{}

func (f front) Recheck()                               { f.s.recheck() }
func (f front) AwaitBatches(ctx context.Context) error { return f.s.awaitBatches(ctx) }
func (f front) Deposed()                               { f.s.sendAway() }
func (f front) LeaderChanged(old, leader partition.TopologyNode) {
	f.s.announceMaster(old, leader)
	f.s.tellLeader(leader)
}
