package partition

import (
	"sync/atomic"
	"time"
)

// lastLeader is the last leader that was known.
type lastLeader struct {
	id   atomic.Pointer[string]
	lost atomic.Int64 // when it was lost, ns since the partition's begin; 0 while a leader is known
}

// LeaderChanged reports that another node is leader, which gets the commands from now on.
// old may be empty.
func (p *Partition) LeaderChanged(old, leader TopologyNode) {
	p.lastLeader.id.Store(&leader.ID)
	p.lastLeader.lost.Store(0)
	if !p.alone {
		p.fast.leaderChanged()
		p.slow.leaderChanged()
	}
	p.Front.LeaderChanged(old, leader)
}

// LeaderLost reports that no leader is known any more.
func (p *Partition) LeaderLost() {
	if !p.alone {
		p.slow.leaderLost()
	}
}

// LastLeader returns the id of the last known leader; "" if none was ever known.
func (p *Partition) LastLeader() string {
	if id := p.lastLeader.id.Load(); id != nil {
		return *id
	}
	return ""
}

// Leaderless returns how long there has been no leader. known says whether a leader is
// known now. The time counts from the first call with known false.
func (p *Partition) Leaderless(known bool) time.Duration {
	if known {
		p.lastLeader.lost.Store(0)
		return 0
	}
	lost := p.lastLeader.lost.Load()
	now := int64(time.Since(p.begun))
	if lost == 0 {
		p.lastLeader.lost.CompareAndSwap(0, now)
		return 0
	}
	return time.Duration(now - lost)
}
