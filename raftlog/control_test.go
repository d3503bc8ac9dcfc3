package raftlog

import (
	"context"
	"encoding/json"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/peer"
)

// A node that does not know an operation says so, also when the request was
// passed on. That differs from a failure.
func TestUnknownOperation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	err := l.g.Call(testContext(t), l.addr, "of tomorrow", nil, nil)
	require.ErrorIs(t, err, ErrUnknownOp)
	require.ErrorContains(t, err, l.addr+`: unknown operation "of tomorrow"`)
	_, err = l.g.Caller().Remove(testContext(t), l.addr, "nobody", false)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnknownOp)
}

// A side ignores what it does not know in a request or an answer.
func TestFieldsOfOtherVersions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	conn, err := l.mux.Dial(testContext(t), peer.Purpose{Kind: peer.KindControl}, l.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, writeFrame(conn, map[string]any{"op": opStatus, "args": map[string]any{"new": 1}, "of_tomorrow": []int{1}}))
	var resp response
	require.NoError(t, readFrame(conn, &resp))
	require.Empty(t, resp.Error)

	near, far := net.Pipe()
	go func() {
		var req request
		readFrame(far, &req)
		writeFrame(far, map[string]any{"result": json.RawMessage(`{"node": "n1", "of_tomorrow": {}}`), "warning": "new"})
	}()
	var s Status
	require.NoError(t, Caller{Dial: func(context.Context, string) (net.Conn, error) { return near, nil }}.Call(testContext(t), "x", opStatus, nil, &s))
	require.Equal(t, "n1", s.NodeID)
}
