package scenario

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// What a leader has of the disputed data must be what was committed, of every key.
func TestDisputedDataAreCompared(t *testing.T) {
	var reply atomic.Value
	reply.Store("*2\r\n$1\r\na\r\n$1\r\n1\r\n")
	n := answering(t, func() string { return reply.Load().(string) })
	var r Run
	committed, err := r.readDisputed(n, "k:")
	require.NoError(t, err)
	require.Len(t, committed, len(disputedData))
	require.NoError(t, r.compareDisputed("next", "the next leader", n, "k:", committed))
	require.Empty(t, r.findings)
	reply.Store("*2\r\n$1\r\na\r\n$2\r\n41\r\n")
	require.NoError(t, r.compareDisputed("next", "the next leader", n, "k:", committed))
	require.Len(t, r.findings, len(disputedData))
	for _, f := range r.findings {
		require.False(t, f.OK)
	}
}

// Every claim is about the key of its row, and all types and scripts have one.
func TestClaims(t *testing.T) {
	names := make(map[string]bool)
	for _, args := range claims("k:") {
		names[args[0]] = true
		require.Contains(t, strings.Join(args, " "), "k:")
		require.NotContains(t, strings.Join(args, " "), "KEY")
	}
	for _, name := range []string{"RL.LIMIT", "RL.RESET", "INCRBY", "APPEND", "HINCRBY", "ZADD", "RPUSH", "SADD", "DEL", "RENAME", "EVALSHA"} {
		require.True(t, names[name], name)
	}
}

func TestValueText(t *testing.T) {
	one := resp.Reply{Type: '$', Str: "one"}
	require.Equal(t, "one", valueText(&one))
	require.Equal(t, "one one", valueText(&resp.Reply{Type: '*', Elems: []resp.Reply{one, one}}))
	require.Empty(t, valueText(&resp.Reply{Type: '_'}))
}
