package raftlog

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// Connections are pooled, and those to a member that was started again are
// broken. Votes are asked once an election, a handover is asked for once: both
// go out on another connection.
func TestBrokenConnectionsCostNoVote(t *testing.T) {
	t.Parallel()
	patient := Timeouts{Heartbeat: 2 * time.Second, Election: 2 * time.Second, Lease: 2 * time.Second}
	c := newCluster(t, 3, func(_ int, c *Config) { c.Timeouts = patient })
	l := c.leader()
	from, to := l.other(1), l.other(2)
	trans := from.g.cur.Load().trans
	server, addr := to.server(), raft.ServerAddress(to.addr)
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(from.server()), Addr: []byte(from.addr)}
	// Of an old term: answered, and refused.
	requests := map[string]func() error{
		"a vote": func() error {
			return trans.RequestVote(server, addr, &raft.RequestVoteRequest{RPCHeader: header}, &raft.RequestVoteResponse{})
		},
		"a pre-vote": func() error {
			return trans.RequestPreVote(server, addr, &raft.RequestPreVoteRequest{RPCHeader: header}, &raft.RequestPreVoteResponse{})
		},
		"a handover": func() error {
			return trans.TimeoutNow(server, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
		},
	}
	for _, name := range []string{"a vote", "a pre-vote", "a handover"} {
		require.NoError(t, requests["a vote"](), "which leaves its connection in the pool")
		to.crash()
		to.start()
		c.converge()
		require.NoError(t, requests[name](), name)
	}
}
