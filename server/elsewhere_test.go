package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// With on-failure open every call of a limit, while it is within the backstop, gets the answer
// of a leader whose limits are full, including errors.
func TestFailOpenAnswersAsFullLimits(t *testing.T) {
	clock, _ := engine.NewManualClock(rigStart)
	node := func(role partition.Role, cfg Config) *machine {
		cfg.part().Engine = engine.New(engine.Config{Clock: clock, LogMaxEntries: 64})
		_, m := replicatedMachine(t, newFakeCluster(role), cfg)
		return m
	}
	leader := node(partition.Leading, Config{})
	for _, command := range []string{
		"RL.LIMIT a 0 1h",
		"RL.LIMIT a 10 1h COST 4",
		"RL.LIMIT a 10 1h COST 11",
		"RL.LIMIT a 10 1h COST -3",
		"RL.LIMIT a 10 1h COST 0",
		"RL.LIMIT a 10 1h BURST 0",
		"RL.LIMIT a 10 1h ALGORITHM fixed BURST 3",
		"RL.LIMIT a 10 1h ALGORITHM fixed ATMOST COST 20",
		"RL.LIMIT a 10 1h ALGORITHM sliding PEEK COST 2",
		"RL.LIMIT a 10 1h ALGORITHM leaky COST 3 WAIT 0",
		"RL.LIMIT a 65 1h ALGORITHM log",
		"RL.LIMIT a 64 1h ALGORITHM log COST 2",
		"RL.LIMIT a 10 1h FORCE COST 30",
		"RL.LIMIT a 10 1h FORCE COST 9223372036854775807",
		"RL.LIMIT a 10 1h FORCE ATMOST",
		"RL.LIMIT a 10 1h DEBT 5 COST 15",
		"RL.LIMIT a 10 1h DEBT 5 COST 16",
		"RL.LIMIT a 10 1h ATMOST COST 20",
		"RL.LIMIT a 10 1h WAIT 1000 COST 10",
		"RL.LIMIT " + strings.Repeat("k", 65537) + " 10 1h",
		"RL.LIMIT a 10 1h AND a 20 1d",
		"RL.LIMIT a 10 1h AND b 20 1d COST 20",
		"RL.LIMIT a 10 1h AND b 20 1d COST 21",
		"RL.LIMIT a 10 1h COST 20 ATMOST AND b 5 1d COST 20",
		"RL.LIMIT a 10 1h COST 2 ATMOST AND b 20 1d COST 3",
		"RL.LIMIT a 10 1h" + strings.Repeat(" AND b 1 1", engine.MaxSegments),
		"CL.THROTTLE a 15 30 60 4",
		"CL.THROTTLE a 15 30 60 17",
		"CL.THROTTLE a -1 1 0",
		"THROTTLE a 15 30 60",
		"THROTTLE a 15 30 0",
		"GCRA a 3 10 1 TOKENS 5",
		"GCRA a 3 0 1",
		"RL.ACQUIRE a 2 1m ID x",
		"RL.ACQUIRE a 2 1m ID x COST 2",
		"RL.ACQUIRE a 2 1m ID x COST 3",
		"RL.ACQUIRE a 2 1m COST 0",
		"RL.ACQUIRE a 0 1s",
		"RL.ACQUIRE a 2 999999h",
		"RL.ACQUIRE a 2 1m ID " + strings.Repeat("x", 129),
	} {
		leader.feed("RL.RESET a b\r\n")
		leader.take()
		sent := encode(strings.Fields(command)...)
		leader.feed(sent)
		want := leader.take()
		alone := node(partition.Orphaned, Config{OnFailure: partition.FailOpen})
		for range 2 {
			alone.feed(sent)
			require.Equal(t, want, alone.take(), command)
		}
	}
}

func TestFailOpenFlagsDenialsToo(t *testing.T) {
	_, m := replicatedMachine(t, newFakeCluster(partition.Orphaned), Config{OnFailure: partition.FailOpen})
	m.feed("HELLO 3\r\n")
	m.take()
	m.feed("RL.ACQUIRE a 2 1m COST 3\r\n")
	require.Equal(t, "%7\r\n$7\r\nallowed\r\n:0\r\n$5\r\nlimit\r\n:2\r\n$9\r\nremaining\r\n:2\r\n$14\r\nretry_after_ms\r\n:-1\r\n"+
		"$2\r\nid\r\n_\r\n$6\r\nttl_ms\r\n:0\r\n$8\r\ndegraded\r\n#t\r\n", m.take())
}
