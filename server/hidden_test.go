package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
)

// shapes are arguments with which most commands do something. N is the name of
// a system record.
var shapes = []string{
	"", "N", "N N", "0", "*", "0 MATCH *", "0 TYPE N", "N 0", "N 5", "0 5", "N 10 1s", "N 5 10 60 1", "N 10 10000 1", "N 1 1s",
	"N BYINT 1", "N N 0", "N 1s N", "ALLOWED", "keyspace", "N SAMPLES 1", "N DB 0", "0 N",
}

// repliesOfAll returns what every command of the table replies to the shapes, on
// an engine that holds system records or does not.
func repliesOfAll(t *testing.T, records bool) map[string]string {
	const name = "n1"
	clock, _ := engine.NewManualClock(rigStart)
	e := engine.New(engine.Config{Shards: 4, MaxBytes: 1 << 20, Clock: clock})
	sess := e.NewSession()
	defer sess.Close()
	charges := []engine.Charge{{Key: []byte("charged"), Limit: algo.Limit{Limit: 5, Period: int64(time.Minute)}, Units: 1}}
	charge := func() {
		lost, err := sess.ChargeOnce(rigStart, name, 7, charges)
		require.NoError(t, err)
		require.Zero(t, lost)
	}
	s := newTestServer(t, Config{Parts: One(e, nil), Settings: newFakeSettings()}, func() uint64 { return 1 })
	m := newMachine(s)
	if records {
		charge()
	} else { // its key and its limit all the same
		_, err := sess.Decide(rigStart, charges[0].Key, charges[0].Limit, 1, &algo.Options{})
		require.NoError(t, err)
	}
	deleted, err := sess.Delete(rigStart, charges[0].Key)
	require.NoError(t, err)
	require.True(t, deleted)
	e.ResetTop()
	replies := make(map[string]string)
	var names []string
	s.table.Each(func(cmd *command.Spec) {
		if cmd.Flags&command.Peers == 0 && slices.Contains(fuzzedCommands(s.table), cmd.Full) {
			names = append(names, cmd.Full)
		}
	})
	for _, full := range names {
		for _, shape := range shapes {
			line := strings.ReplaceAll(full, "|", " ") + " " + strings.ReplaceAll(shape, "N", name)
			if _, seen := replies[line]; seen {
				continue
			}
			m.feed(encode(strings.Fields(line)...))
			for deadline := time.Now().Add(patience); m.stall&stallWorker != 0; m.lane.runPosts() {
				require.True(t, time.Now().Before(deadline), "%q hangs", line)
			}
			replies[line] = m.take()
			if m.ending != 0 || m.killed {
				m = newMachine(s)
			}
			if m.tx != nil {
				m.feed(encode("DISCARD"))
				m.take()
			}
		}
		require.NoError(t, sess.Flush())
		if records {
			charge()
			exists, err := sess.Exists(rigStart, charges[0].Key)
			require.NoError(t, err)
			require.False(t, exists, "%s: charged again", full)
		}
	}
	return replies
}

// ofTheProcess reports whether a command's reply depends on time or on other commands.
func ofTheProcess(line string) bool {
	name, _, _ := strings.Cut(line, " ")
	return slices.Contains([]string{"info", "latency", "slowlog", "time", "client", "hello"}, name)
}

// System records are in a key space of their own: no command answers otherwise
// for one, and none takes it away.
func TestNoCommandMeetsSystemRecords(t *testing.T) {
	without, again, with := repliesOfAll(t, false), repliesOfAll(t, false), repliesOfAll(t, true)
	require.Len(t, with, len(without))
	same, answered := 0, 0
	for line, reply := range without {
		if again[line] != reply || ofTheProcess(line) {
			continue
		}
		same++
		if reply != "" && reply[0] != '-' {
			answered++
		}
		if !strings.HasPrefix(line, "debug digest") { // which is about all that replicates
			require.Equal(t, reply, with[line], line)
		}
	}
	require.Greater(t, same, len(without)*3/4)
	require.Greater(t, answered, len(without)/10)
	for _, must := range []string{
		"scan 0", "keys *", "dbsize ", "randomkey ", "object encoding N", "memory usage N", "exists N", "del N", "rl.explain N", "flushall ",
	} {
		require.Contains(t, without, strings.ReplaceAll(must, "N", "n1"))
	}
}
