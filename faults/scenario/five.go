package scenario

import (
	"errors"

	"github.com/headgate-io/headgate/faults/cluster"
)

// fiveNodes kills the leader and a follower of five at once, which speak TLS with each other: three are a majority.
func fiveNodes(r *Run) error {
	const nodes = 5
	if err := r.start(cluster.Config{Nodes: nodes, PeerTLS: true}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, nodes, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		follower := r.cluster.Nodes[(leader.Index+1+r.rnd.IntN(nodes-1))%nodes]
		if err := errors.Join(r.kill(leader), r.kill(follower)); err != nil {
			return err
		}
		next, err := r.leader(leader, follower)
		if err != nil {
			return err
		}
		r.note("%s leads", next.Name)
		return errors.Join(r.restart(leader), r.restart(follower))
	})
	return r.finish(l, keys, err)
}
