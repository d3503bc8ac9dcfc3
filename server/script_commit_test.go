package server

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// slowLoop makes a script slow.
const (
	slowLoop = "local n = 0 for i = 1, 100000 do n = n + 1 end "
	// ululeIncr is known: the increment of ulule/limiter.
	ululeIncr = "f74233f556d3f99c50b61169cf8aa8d5deb63fb2"
)

// settled sends lines and waits until none of them is on a worker.
func (m *machine) settled(t *testing.T, lines ...string) {
	t.Helper()
	m.feed(strings.Join(lines, "\r\n") + "\r\n")
	for deadline := time.Now().Add(6 * patience); m.stall&stallWorker != 0; m.lane.runPosts() {
		require.True(t, time.Now().Before(deadline), "the script hangs")
		runtime.Gosched()
	}
}

// The reply of a script, wherever it runs, waits for its commit as that of a
// command does, and is uncertain if that fails.
func TestRepliesOfScriptsWaitForTheirCommit(t *testing.T) {
	const (
		sets  = "redis.call('set', KEYS[1], 1) return 'set'"
		sync  = "return redis.call('rl.limit', KEYS[1], 10, 60, 'SYNC')[1]"
		async = "return redis.call('rl.limit', KEYS[1], 10, 60, 'ASYNC')[1]"
		// Of several the strictest counts, in whichever order.
		setAndAsync  = "redis.call('set', KEYS[2], 1) " + async
		asyncAndSet  = "redis.call('rl.limit', KEYS[2], 10, 60, 'ASYNC') " + sets
		syncAndAsync = "redis.call('rl.limit', KEYS[1], 10, 60, 'SYNC') " + async
		asyncAndPing = "redis.call('rl.limit', KEYS[1], 10, 60, 'ASYNC') return redis.call('ping')"
	)
	eval := func(body string) []string { return []string{`EVAL "` + body + `" 2 k l`} }
	exec := func(body string) []string { return []string{"MULTI", eval(body)[0], "EXEC"} }
	native := []string{"EVALSHA " + ululeIncr + " 1 k 1 60000"}
	for _, tc := range []struct {
		name    string
		lines   []string
		durable bool
		waits   bool
	}{
		{"on its loop", eval(sets), true, true},
		{"on a worker", eval(slowLoop + sets), true, true},
		{"known", native, true, true},
		{"in a transaction", exec(sets), true, true},
		{"known, in a transaction", []string{"MULTI", native[0], "EXEC"}, true, true},
		{"on its loop, async", eval(sets), false, false},
		{"on a worker, async", eval(slowLoop + sets), false, false},
		{"known, async", native, false, false},
		{"in a transaction, async", exec(sets), false, false},
		{"SYNC on its loop", eval(sync), false, true},
		{"SYNC on a worker", eval(slowLoop + sync), false, true},
		{"SYNC in a transaction", exec(sync), false, true},
		{"ASYNC on its loop", eval(async), true, false},
		{"ASYNC in a transaction", exec(async), true, true}, // EXEC says nothing
		{"a set and ASYNC", eval(setAndAsync), true, true},
		{"ASYNC and a set", eval(asyncAndSet), true, true},
		{"ASYNC and a set in a transaction", exec(asyncAndSet), true, true},
		{"SYNC and ASYNC", eval(syncAndAsync), false, true},
		{"SYNC and ASYNC on a worker", eval(slowLoop + syncAndAsync), false, true},
		{"ASYNC and a command without keys", eval(asyncAndPing), true, false},
	} {
		for _, failure := range []error{nil, partition.ErrUncertain} {
			f := newFakeCluster(partition.Leading)
			f.durable = tc.durable
			s, m := replicatedMachine(t, f, Config{})
			m.settled(t, tc.lines...)
			out := strings.TrimPrefix(m.take(), "+OK\r\n+QUEUED\r\n")
			require.Equal(t, tc.waits, out == "", "%s: %q", tc.name, out)
			if !tc.waits {
				require.NotContains(t, out, "-", tc.name)
				continue
			}
			require.Equal(t, 1, m.parkedReplies, tc.name)
			require.NotZero(t, f.awaits.Load(), tc.name)
			s.Partition().Release(1, failure)
			m.lane.runPosts()
			if out = m.take(); failure != nil {
				require.Equal(t, uncertain, out, tc.name)
			} else {
				require.NotEmpty(t, out, tc.name)
				require.NotContains(t, out, "-", tc.name)
			}
		}
	}
}

// A long text that is loaded waits for its commit as a short one does, though it is compiled on
// a worker. After the reply the client need never send it again.
func TestLongScriptsAreLoadedForGood(t *testing.T) {
	for _, text := range []string{"return 1", "return 1 --" + strings.Repeat("x", 2*4<<10)} {
		for _, failure := range []error{nil, partition.ErrUncertain} {
			s, m := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
			m.settled(t, `SCRIPT LOAD "`+text+`"`)
			require.Empty(t, m.take())
			s.Partition().Release(1, failure)
			m.lane.runPosts()
			require.Equal(t, failure != nil, m.take() == uncertain, "%d bytes", len(text))
		}
	}
}

func TestStrictest(t *testing.T) {
	const def, commit, none = command.SyncDefault, command.SyncCommit, command.SyncNone
	for _, c := range [][3]command.SyncMode{
		{def, def, def}, {def, commit, commit}, {def, none, def}, {commit, none, commit}, {none, none, none}, {commit, commit, commit},
	} {
		require.Equal(t, c[2], c[0].Strictest(c[1]), c)
		require.Equal(t, c[2], c[1].Strictest(c[0]), c)
	}
}
