package raftlog

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
)

// Remove takes a member out of the cluster. The removed node goes on running, follows nobody, and never stands for
// election: it may be replaying an old removal, and must not act on it.
func (g *Group) Remove(ctx context.Context, id string) error {
	servers, index := g.configuration()
	s, ok := findServer(servers, id)
	if !ok {
		return fmt.Errorf("%w: %s", ErrUnknownMember, id)
	}
	return g.change(ctx, func(r *raft.Raft) raft.IndexFuture {
		return r.RemoveServer(s.ID, index, enqueueTimeout)
	})
}
