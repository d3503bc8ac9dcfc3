package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// Over the wire SCALE and overrides change how many calls may run, not which do; who
// lacks the attribute goes by missing.
func TestConcurrentLimitsAndWhatChangesThem(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("export", `{limits: {run: {by: t, concurrent: 4, ttl: 1h, missing: deny}}}`)
	hold := ""
	for _, left := range []string{"run=3", "run=2", "run=1", "run=0"} {
		hold = r.allows("export t A", "run", left).hold.(string)
	}
	const hour = 3_600_000
	require.EqualValues(t, 4, r.denies("export t A", "run", hour, "run=0").limit)
	r.is("RL.OVERRIDE SET export SCALE 150", "OK")
	require.EqualValues(t, 6, r.allows("export t A", "run", "run=1").limit)
	r.is("RL.OVERRIDE SET export SCALE 50", "OK")
	require.EqualValues(t, 2, r.denies("export t A", "run", hour, "").limit)
	require.EqualValues(t, 2, r.allows("export t B", "run", "run=1").limit)
	r.is("RL.OVERRIDE DEL export SCALE", "1")
	r.is("RL.OVERRIDE SET export LIMIT run RATE 6 t A", "OK")
	require.EqualValues(t, 6, r.allows("export t A", "run", "run=0").limit)
	r.denies("export t A", "run", hour, "run=0")
	r.settle("RL.COMMIT " + hold)
	r.allows("export t A", "run", "run=0")
	require.Equal(t, "missing", r.denies("export", "run", -1, "").reason)
}

// Slots go by `share` as rates do: who is not in is not limited and takes none, and who
// is in keeps what it has while the share grows.
func TestConcurrentLimitsOfAShare(t *testing.T) {
	r := newRig(t, engine.Config{})
	const text = `{limits: {run: {by: t, concurrent: 2, ttl: 1h, share: %s}}}`
	r.setPolicy("export", fmt.Sprintf(text, "50%"))
	var in, out, hold string
	for i := 0; in == "" || out == ""; i++ {
		caller := fmt.Sprintf("export t t%d", i)
		switch c := r.check(caller); {
		case c.applied == 0:
			require.Nil(t, c.hold, "there is nothing to hold")
			out = caller
		case in == "":
			in, hold = caller, c.hold.(string)
		}
	}
	const hour = 3_600_000
	r.allows(in, "run", "run=0")
	r.denies(in, "run", hour, "run=0")
	for range 3 {
		r.allows(out, "", "")
	}
	r.setPolicy("export", fmt.Sprintf(text, "100%"))
	r.denies(in, "run", hour, "run=0")
	r.settle("RL.COMMIT " + hold)
	r.allows(in, "run", "run=0")
	r.allows(out, "run", "run=1")

	// Who falls out of a share is not limited any more; what it holds can be given back.
	hold = r.allows(out, "run", "run=0").hold.(string)
	r.setPolicy("export", fmt.Sprintf(text, "50%"))
	r.allows(out, "", "")
	require.Equal(t, "committed", r.settle("RL.COMMIT "+hold).reason)
	r.setPolicy("export", fmt.Sprintf(text, "100%"))
	r.allows(out, "run", "run=0")
}

// Without a leader nobody can take a slot: `open` lets calls pass without one, to `local`
// and `closed` a call that wants one is an error. What was taken before is kept.
func TestConcurrentLimitsWithoutALeader(t *testing.T) {
	n := newPolicyNode(t, partition.Leading)
	n.f.set(func(f *fakeCluster) { f.topology = threeVoters })
	n.send("RL.POLICY", "SET", "rate", "{on_failure: local, limits: {day: {by: t, rate: 90/day}}}")
	n.commit(t)
	n.m.lane.runPosts()
	for _, name := range []string{"open", "local", "closed"} {
		n.send("RL.POLICY", "SET", name, "{on_failure: "+name+", limits: {run: {by: t, concurrent: 2, ttl: 1h}, day: {by: t, rate: 90/day}}}")
		n.commit(t)
		n.m.lane.runPosts()
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a", "ID", "first"), "*13\r\n:1\r\n:2\r\n:1\r\n", name)
		n.commit(t)
	}
	n.f.become(partition.Orphaned)
	n.replica.Depose()
	n.l.Depose()
	require.Contains(t, n.ask(t, "RL.CHECK", "rate", "t", "a"), "*13\r\n:1\r\n:30\r\n:29\r\n", "rates are decided locally")
	for range 3 {
		for _, command := range []string{"RL.CHECK", "RL.RESERVE"} {
			reply := n.ask(t, command, "open", "t", "a")
			require.Contains(t, reply, "*13\r\n:1\r\n", command)
			require.Contains(t, reply, "$2\r\nok\r\n$-1\r\n", "%s is given no hold", command)
			for _, name := range []string{"local", "closed"} {
				require.Contains(t, n.ask(t, command, name, "t", "a"), "-CLUSTERDOWN ", "%s %s", command, name)
			}
			require.Contains(t, n.ask(t, command, "open", "t", "a", "FAIL", "local"), "-CLUSTERDOWN ")
			require.Contains(t, n.ask(t, command, "local", "t", "a", "FAIL", "open"), "$2\r\nok\r\n$-1\r\n")
		}
	}
	require.Contains(t, n.ask(t, "RL.COMMIT", "open;first"), "-CLUSTERDOWN ")
	n.replica.Lead(n.e.Now())
	n.f.become(partition.Leading)
	for _, name := range []string{"open", "local", "closed"} {
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a"), "*13\r\n:1\r\n:2\r\n:0\r\n", name)
		require.Contains(t, n.ask(t, "RL.CHECK", name, "t", "a"), "*13\r\n:0\r\n:2\r\n:0\r\n", name)
	}
}
