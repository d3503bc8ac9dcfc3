package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// An idle loop is in no batch, which a handover would wait for.
func TestIdleTicksEndTheirBatch(t *testing.T) {
	s, _ := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
	lp, err := s.newLoop()
	require.NoError(t, err)
	for range 3 {
		lp.tick(true)
		require.Zero(t, lp.lane.turn.Load()&1)
	}
	lp.stop()
	lp.run()
}
