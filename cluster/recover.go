package cluster

import (
	"fmt"
	"log/slog"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Recover turns the data in dataDir into that of a new cluster whose only members are
// voters, for a node whose cluster has lost its majority for good: see raftlog.Recover. It does so for all groups, and can be
// repeated after an error.
// addr is the address at which the other nodes reach the node.
func Recover(nodeID, dataDir, addr string, voters []member.Voter, log *slog.Logger) error {
	groups, err := raftlog.Groups(dataDir)
	if err != nil {
		return err
	}
	groups = max(groups, 1)
	for g := range groups {
		if g > 0 && !raftlog.HasRun(dataDir, uint32(g)) {
			continue // the node was stopped before this group was founded
		}
		e := engine.New(engine.Config{})
		m := &machine{ // it never leads
			engine:  e,
			replica: e.Replicate(ledger.New(ledger.Hooks{})),
		}
		if err := raftlog.Recover(raftlog.Config{
			GroupID: uint32(g), Groups: groups,
			NodeID: nodeID, DataDir: dataDir, Advertise: addr, Join: []string{addr}, Features: features(), Logger: log,
		}, m, voters); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}
