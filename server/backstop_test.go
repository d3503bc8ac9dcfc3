package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// openNode is a node without a leader that answers as open says, at a time that
// stands still, and a connection to it.
func openNode(t *testing.T, cfg Config) (*Server, *machine) {
	clock, _ := engine.NewManualClock(rigStart)
	cfg.part().Engine, cfg.OnFailure = engine.New(engine.Config{Clock: clock}), partition.FailOpen
	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	return replicatedMachine(t, f, cfg)
}

// granted is how many units of calls a node admits, by the first integer of each
// reply.
func granted(t *testing.T, m *machine, calls int, units int64, command string) (n int64) {
	t.Helper()
	for range calls {
		m.feed(command + "\r\n")
		reply := m.take()
		require.Contains(t, reply, "*", command)
		var first int64
		_, err := fmt.Sscanf(reply[strings.IndexByte(reply, ':'):], ":%d", &first)
		require.NoError(t, err, reply)
		if strings.HasPrefix(command, "CL.THROTTLE") || strings.HasPrefix(command, "GCRA") {
			first = 1 - first // their first value is whether it is limited
		}
		n += first * units
	}
	return n
}

// An outage is no flood: what open admits of a limit is bounded, whatever the
// algorithm, cost and command.
func TestOpenIsBounded(t *testing.T) {
	s, m := openNode(t, Config{})
	denied := uint64(0)
	check := func(want int64, units int64, command string) {
		t.Helper()
		require.Equal(t, want, granted(t, m, 200, units, command), command)
		denied += 200 - uint64(want/units)
		require.Equal(t, denied, s.Stats().BackstopDenied, command)
	}
	for _, algorithm := range []string{"token", "leaky", "fixed", "sliding"} {
		check(90, 1, "RL.LIMIT "+algorithm+" 9 1d ALGORITHM "+algorithm)
		check(90, 2, "RL.LIMIT two:"+algorithm+" 9 1d ALGORITHM "+algorithm+" COST 2")
	}
	check(45, 1, "RL.LIMIT log 9 1d ALGORITHM log") // and as much again in the day
	check(50, 1, "RL.LIMIT burst 9 1d BURST 5")
	check(40, 1, "CL.THROTTLE cell 3 1 86400")
	check(30, 1, "THROTTLE throttle 3 1 86400")
	check(40, 1, "GCRA gcra 3 1 86400")
	check(30, 1, "RL.LIMIT a 9 1d AND b 3 1d")
	require.EqualValues(t, 60, granted(t, m, 60, 1, "RL.LIMIT a 9 1d"), "a was charged by what b has let pass")
	m.feed("SELECT 3\r\n")
	require.Equal(t, "+OK\r\n", m.take())
	check(90, 1, "RL.LIMIT token 9 1d")

	// A transaction, one command after another.
	m.feed("MULTI\r\n" + strings.Repeat("RL.LIMIT tx 1 1d\r\n", 12) + "EXEC\r\n")
	require.Equal(t, 10, strings.Count(m.take(), "*6\r\n:1\r\n"))
	m.feed("RL.LIMIT tx 1 1d\r\n")
	require.Equal(t, "*6\r\n:0\r\n:1\r\n:0\r\n:8640000\r\n:86400000\r\n:0\r\n", m.take(), "a tenth of a day until there is another")
	m.feed("HELLO 3\r\n")
	m.take()
	m.feed("RL.LIMIT tx 1 1d\r\n")
	require.Contains(t, m.take(), "$7\r\nallowed\r\n:0\r\n")
	m.feed("RL.LIMIT tx 1 1d PEEK\r\n")
	require.Contains(t, m.take(), "$8\r\ndegraded\r\n#t\r\n")

	// Keys without a limit have none here: counters, and slots that nobody gives back.
	for range 100 {
		m.feed("INCR n\r\n")
		require.Equal(t, ":1\r\n", m.take())
		m.feed("RL.ACQUIRE slots 1 1m\r\n")
		require.Contains(t, m.take(), "$7\r\nallowed\r\n:1\r\n")
	}
}

// The node's backstop is a parameter, and 1 is the limit itself.
func TestBackstopOfANode(t *testing.T) {
	_, m := openNode(t, Config{Backstop: 1})
	for _, algorithm := range []string{"token", "leaky", "fixed", "sliding", "log"} {
		require.EqualValues(t, 9, granted(t, m, 50, 1, "RL.LIMIT "+algorithm+" 9 1d ALGORITHM "+algorithm), algorithm)
	}
}

// A policy has a backstop of its own, also where the call says that it fails open;
// its limits are held together.
func TestBackstopOfAPolicy(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.topology = threeVoters
	s, m := replicatedMachine(t, f, Config{Backstop: 5})
	for name, text := range map[string]string{
		"own":    `{on_failure: open, backstop: 2, limits: {user: {by: user, rate: 9/d}, all: {rate: 12/d, algorithm: fixed}, soft: {rate: 1/d, mode: soft}}}`,
		"node":   `{on_failure: open, limits: {a: {by: user, rate: 9/d, cost: 3}}}`,
		"closed": `{on_failure: closed, backstop: 3, limits: {a: {rate: 9/d}}}`,
	} {
		m.feed(encode("RL.POLICY", "SET", name, text))
		settlePolicy(t, f, s, m)
		require.Equal(t, ":1\r\n", m.take())
	}
	f.become(partition.Orphaned)
	require.EqualValues(t, 18, granted(t, m, 100, 1, "RL.CHECK own user eve"))
	m.feed("RL.CHECK own user eve\r\n")
	require.Regexp(t, `^\*13\r\n:0\r\n:9\r\n:0\r\n:\d+\r\n:\d+\r\n:0\r\n\$4\r\nuser\r\n\$5\r\nlimit\r\n`, m.take())
	require.EqualValues(t, 24-18, granted(t, m, 100, 1, "RL.CHECK own user bob"), "what is left of all")
	m.feed("RL.CHECK own user bob\r\n")
	require.Regexp(t, `\$3\r\nall\r\n\$5\r\nlimit\r\n`, m.take())
	require.EqualValues(t, 45, granted(t, m, 100, 3, "RL.CHECK node user eve"))
	require.EqualValues(t, 27, granted(t, m, 100, 1, "RL.CHECK closed FAIL open"))
	m.feed("RL.CHECK closed\r\n")
	require.Contains(t, m.take(), "-CLUSTERDOWN ")
	require.EqualValues(t, 45, granted(t, m, 100, 1, "RL.LIMIT plain 9 1d FAIL open"), "the node's")
}
