package cluster

import (
	"log/slog"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Recover turns the data in dataDir into that of a new cluster whose only members are
// voters, for a node whose cluster has lost its majority for good: see raftlog.Recover.
// addr is the address at which the other nodes reach the node.
func Recover(nodeID, dataDir, addr string, voters []member.Voter, log *slog.Logger) error {
	e := engine.New(engine.Config{})
	m := &machine{ // it never leads
		engine:  e,
		replica: e.Replicate(ledger.New(ledger.Hooks{})),
	}
	return raftlog.Recover(raftlog.Config{
		NodeID: nodeID, DataDir: dataDir, Advertise: addr, Join: []string{addr}, Features: features(), Logger: log,
	}, m, voters)
}
