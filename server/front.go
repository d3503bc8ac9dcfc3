package server

import (
	"context"

	"github.com/headgate-io/headgate/cluster/partition"
)

// front is the server in the form that one of its partitions calls.
type front struct {
	s  *Server
	of uint16 // the index of the partition
}

var _ partition.Front = front{}

func (f front) Recheck()                               { f.s.recheck(f.of) }
func (f front) AwaitBatches(ctx context.Context) error { return f.s.awaitBatches(ctx) }
func (f front) TermChanged()                           { f.s.terms.Add(1) }
func (f front) Deposed()                               { f.s.sendAway(f.of) }
func (f front) LeaderChanged(old, leader partition.TopologyNode) {
	if f.of == 0 { // its leader is the master of Sentinel's clients
		f.s.announceMaster(old, leader)
	}
	f.s.tellLeader(int(f.of), leader)
}
