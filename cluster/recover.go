package cluster

import (
	"log/slog"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Recover makes voters the whole cluster of a node that has lost its majority for good,
// with the data in dataDir: see raftlog.Recover. addr is where the others reach the node.
func Recover(nodeID, dataDir, addr string, voters []member.Voter, log *slog.Logger) error {
	e := engine.New(engine.Config{})
	m := &machine{ // it never leads
		engine:  e,
		replica: e.Replicate(ledger.New(ledger.Hooks{})),
	}
	return raftlog.Recover(raftlog.Config{
		GroupID: group, NodeID: nodeID, DataDir: dataDir, Advertise: addr, Join: []string{addr}, Features: features(), Logger: log,
	}, m, voters)
}
