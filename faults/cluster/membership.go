package cluster

import (
	"context"
	"errors"
	"time"

	headgate "github.com/headgate-io/headgate/cluster"
)

// Remove takes a node out of the cluster for good, and stops it. It is asked for at another node.
func (c *Cluster) Remove(ctx context.Context, n, asked *Node) error {
	if _, err := c.client.RemoveNode(ctx, asked.Peer, n.Name, false, statusTimeout); err != nil {
		return err
	}
	n.retired = true
	return n.Stop()
}

// Replace puts a fresh node, which runs already, in the place of a dead one.
func (c *Cluster) Replace(ctx context.Context, dead, fresh, asked *Node) error {
	err := c.client.Replace(ctx, asked.Peer, headgate.Replacement{
		Old: dead.Name, New: fresh.Name, NewAddr: fresh.front.Addr(), Timeout: 5 * time.Second, Tell: func(string) {},
	})
	if errors.Is(err, headgate.ErrHasVote) { // an attempt before this one, or the node itself, has got so far
		_, err = c.client.RemoveNode(ctx, asked.Peer, dead.Name, false, statusTimeout)
	}
	dead.retired = err == nil
	return err
}
