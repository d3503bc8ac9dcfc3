package server

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/checks"
)

const ceilingPolicy = "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/h}, all: {rate: 4/h}}}"

// The home decides first, and its charge is given back if the ceiling denies the call.
func TestChecksOfTwoGroups(t *testing.T) {
	clock, _ := engine.NewManualClock(1e18)
	n := startHomesAt(t, 3, clock)
	n.set(t, "pay", ceilingPolicy)
	c := dial(t, n.addr)
	homes := homesOf(3) // the policy's own group is the first
	passed := func(of, user string) string {
		t.Helper()
		reply := c.call("RL.CHECK pay user " + user + " tenant " + of).([]any)
		return fmt.Sprintln(reply[0], reply[6], reply[2])
	}
	left := func(of, user string) any {
		t.Helper()
		return c.call("RL.CHECK pay user " + user + " COST 0 PEEK tenant " + of).([]any)[11].([]any)[0].([]any)[3]
	}
	require.Equal(t, "1 user 2\n", passed(homes[0], "bob"))
	require.Equal(t, "1 user 2\n", passed(homes[1], "bob"))
	require.Equal(t, "1 all 1\n", passed(homes[2], "bob"))
	require.Equal(t, "1 all 0\n", passed(homes[2], "bob"))
	for _, home := range homes {
		require.Equal(t, "0 all 0\n", passed(home, "eve"))
		require.EqualValues(t, 3, left(home, "eve"))
	}
	require.EqualValues(t, 1, left(homes[2], "bob"))
	require.Equal(t, []string{"@pay:user;tenant=" + homes[1] + ";user=bob"}, keysIn(n.parts[1].Engine()))
	require.Contains(t, keysIn(n.parts[0].Engine()), "@pay:all")
	require.Equal(t, checks.TwoGroups{Asked: 5, Cancelled: 2}, n.checks.TwoGroups())
	require.NotNil(t, c.call("RL.EXPLAIN @pay:all"))

	explained := fmt.Sprint(c.call("RL.EXPLAIN POLICY pay user eve tenant " + homes[1]))
	require.Contains(t, explained, "key @pay:user;tenant="+homes[1]+";user=eve step 1 passes 1 capacity 3 remaining 3 ")
	require.Contains(t, explained, "key @pay:all step 2 passes 0 capacity 4 remaining 0 ")
	require.NotContains(t, fmt.Sprint(c.call("RL.EXPLAIN POLICY pay user eve tenant "+homes[0])), "step")

	// Leases lend nothing, holds and steps are refused.
	n.set(t, "wide", "{home: tenant, limits: {user: {by: [tenant, user], rate: 300/h}, all: {rate: 400/h}}}")
	require.Equal(t, "[1 300 298 0 24000 0 2 0 0 0 0]", fmt.Sprint(c.call("RL.LEASE POLICY wide user eve tenant "+homes[1]+" ID h1 SEQ 1 WANT 20 NEED 2")))
	require.Equal(t, int64(0), c.call("RL.RETURN POLICY wide user eve tenant "+homes[1]+" ID h1 SEQ 2 HELD 1"))
	for _, home := range homes {
		f := func(command, want string) {
			t.Helper()
			require.ErrorContains(t, failed(t, c.call(command+" user eve tenant "+home)), "CROSSSLOT policy 'wide' has limits in two groups: "+want)
		}
		f("RL.RESERVE wide", "its calls have no hold: use RL.CHECK")
		require.ErrorContains(t, failed(t, c.call("EVAL \"return redis.call('RL.CHECK', 'wide', 'tenant', '"+home+"')\" 1 {"+home+"}")), "outside of transactions and scripts")
		require.ErrorContains(t, failed(t, c.call("RL.DESCRIPTORS wide 1 1 1 tenant "+home+" - -")), "use RL.CHECK")
	}
}

// Only a call whose reply waits for its commit asks for a batch of its own. A batch costs as
// much as a hundred decisions.
func TestChecksOfTwoGroupsDoNotHurryTheLog(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", ceilingPolicy)
	c := dial(t, n.addr)
	home := n.groups[1]
	awaits, expects := home.awaits.Load(), home.expects.Load()
	check := "RL.CHECK pay user bob tenant " + homesOf(3)[1]
	require.EqualValues(t, 1, c.call(check).([]any)[0])
	require.Equal(t, awaits, home.awaits.Load())
	require.Equal(t, expects+1, home.expects.Load(), "a handover waits for the call")
	c.send(check + " SYNC\r\n")
	eventually(t, "the call to ask for its commit", func() bool { return home.awaits.Load() > awaits })
}

// A ceiling that counts by another attribute is in the group of its value.
func TestCeilingsWithAHomeOfTheirOwn(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/h}, net: {by: net, rate: 4/h}, far: {by: [zone, net], rate: 9/h}}}")
	c := dial(t, n.addr)
	homes := homesOf(3)
	for _, home := range homes {
		for i, net := range homes {
			require.Equal(t, int64(1), c.call("RL.CHECK pay user bob zone z tenant " + home + " net " + net).([]any)[0])
			require.Contains(t, keysIn(n.parts[i].Engine()), "@pay:net;net="+net)
			require.Contains(t, keysIn(n.parts[i].Engine()), "@pay:far;zone=z;net="+net)
			require.NotNil(t, c.call("RL.EXPLAIN @pay:net;net="+net))
		}
	}
	for i, net := range homes {
		require.Equal(t, int64(0), c.call("RL.CHECK pay user bob tenant " + homes[0] + " net " + net).([]any)[0])
		require.Equal(t, int64(1), c.call("RL.CHECK pay net " + net).([]any)[0], "without a home, the ceilings are the only group")
		require.Len(t, keysIn(n.parts[i].Engine()), 3)
		require.Equal(t, int64(1), c.call("RL.POLICY RESET pay net "+net))
	}
	require.Contains(t, fmt.Sprint(c.call("RL.POLICY SET pay DRYRUN \"{home: tenant, limits: {user: {by: [tenant, user], rate: 3/h}, net: {by: net, rate: 4/h}, far: {by: zone, rate: 9/h}}}\"")), "third group")
	dry := "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/h}, net: {by: zone, rate: 4/h}, far: {by: [zone, net], rate: 9/h}}}"
	require.Contains(t, fmt.Sprint(c.call("RL.POLICY SET pay DRYRUN \""+dry+"\"")), "home: tenant, ceilings: net -> tenant, ceilings: zone (all counters begin at zero)")
}

// If the ceilings are known not to have charged the call, the home gives its charge back. If
// nobody knows, the charge stays.
func TestOutcomesOfTheSecondGroup(t *testing.T) {
	clock, _ := engine.NewManualClock(1e18)
	n := startHomesAt(t, 3, clock)
	n.set(t, "pay", ceilingPolicy)
	c := dial(t, n.addr)
	check := "RL.CHECK pay user bob tenant " + homesOf(3)[1]
	n.leads(0, false)
	require.ErrorContains(t, failed(t, c.call(check)), "CLUSTERDOWN no leader is known")
	require.Equal(t, checks.TwoGroups{Asked: 1, Cancelled: 1}, n.checks.TwoGroups())
	n.groups[0].set(func(f *fakeCluster) {
		f.role = partition.Following
		f.dial = func(context.Context) (net.Conn, error) {
			mine, leader := net.Pipe()
			go func() { // the leader reads commands, and dies
				var read []byte
				for !bytes.Contains(read, []byte("RL.CEILING")) {
					b := make([]byte, 4096)
					n, _ := leader.Read(b)
					if read = append(read, b[:n]...); bytes.HasPrefix(b, []byte("*2\r\n$5\r\nHELLO")) {
						_, _ = leader.Write([]byte("+hello\r\n"))
					}
				}
				leader.Close()
			}()
			return mine, nil
		}
	})
	require.ErrorContains(t, failed(t, c.call(check)), "UNCERTAIN")
	require.Equal(t, checks.TwoGroups{Asked: 2, Cancelled: 1, Unknown: 1}, n.checks.TwoGroups())
	require.Contains(t, c.call("INFO replication"), "headgate_two_group_checks:2\r\nheadgate_two_group_cancelled:1\r\nheadgate_two_group_kept:0\r\nheadgate_two_group_unknown:1\r\n")
	n.leads(0, true)
	reply := c.call(check).([]any)
	require.Equal(t, "[1 3 1]", fmt.Sprint(reply[:3]), "one unit is still taken")
	require.EqualValues(t, 3, reply[11].([]any)[1].([]any)[3])

	// A policy that fails open or local needs a leader at home, or decides by the backstop.
	n.set(t, "open", "{home: tenant, on_failure: open, limits: {user: {by: [tenant, user], rate: 300/h}, all: {rate: 400/h}}}")
	n.set(t, "local", "{home: tenant, on_failure: local, limits: {user: {by: [tenant, user], rate: 300/h}, all: {rate: 400/h}}}")
	for _, g := range n.groups { // each has a share for local
		g.set(func(f *fakeCluster) { f.topology = threeVoters })
	}
	for _, home := range homesOf(3)[1:] {
		n.leads(0, true)
		n.leads(1, true)
		n.leads(2, true)
		require.EqualValues(t, 1, c.call("RL.CHECK open user bob tenant " + home).([]any)[0])
		n.leads(0, false)
		for _, name := range []string{"open", "local"} {
			reply := c.call("RL.CHECK " + name + " user bob tenant " + home)
			require.IsType(t, []any{}, reply, "%v", reply)
			require.EqualValues(t, 1, reply.([]any)[0])
		}
		n.leads(1, false)
		n.leads(2, false)
		require.EqualValues(t, 1, c.call("RL.CHECK open user bob tenant " + home).([]any)[0])
		require.ErrorContains(t, failed(t, c.call("RL.CHECK local user bob tenant "+home)), "CLUSTERDOWN")
	}
}

// A flooder whom the home denies does not use up the ceiling, and a flooder whom the ceiling
// denies does not use up its home.
func TestADeniedFlooderTakesNothing(t *testing.T) {
	clock, _ := engine.NewManualClock(1e18)
	n := startHomesAt(t, 12, clock)
	n.set(t, "pay", "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/h}, t: {by: tenant, rate: 50/h}, all: {rate: 100/h}}}")
	home := homesOf(12)[7]
	var all sync.WaitGroup
	flood := func(user string) (passed int64) {
		var sum atomic.Int64
		for range 8 {
			all.Go(func() {
				c := dial(t, n.addr)
				for range 50 {
					sum.Add(c.call("RL.CHECK pay tenant " + home + " user " + user).([]any)[0].(int64))
				}
			})
		}
		all.Wait()
		return sum.Load()
	}
	c := dial(t, n.addr)
	remaining := func(limit int) any {
		return c.call("RL.CHECK pay COST 0 PEEK user new tenant " + home).([]any)[11].([]any)[limit].([]any)[3]
	}
	require.EqualValues(t, 3, flood("eve"))
	require.EqualValues(t, 97, remaining(2))
	require.EqualValues(t, 47, remaining(1))
	c.call("RL.CHECK pay net x COST 97")
	require.Zero(t, remaining(2))
	require.Zero(t, flood("bob"))
	require.EqualValues(t, 47, remaining(1))
	require.EqualValues(t, 3, remaining(0))
	two := n.checks.TwoGroups()
	require.Equal(t, checks.TwoGroups{Asked: 3 + two.Cancelled, Cancelled: two.Cancelled}, two)
	require.Greater(t, two.Cancelled, uint64(100), "the others met a charge that was not given back yet")
}

// Twelve groups and one group give the same answers to calls that follow each other.
func TestTwoGroupsAnswerAsOne(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	texts := []string{
		"limits: {user: {by: [tenant, user], rate: 3/s}, all: {rate: 10/s}}",
		"limits: {user: {by: [tenant, user], rate: 5/s, algorithm: fixed}, all: {rate: 8/s, algorithm: sliding}, day: {rate: 300/d, algorithm: fixed}}",
		"limits: {all: {rate: 9/s, algorithm: fixed}, user: {by: [tenant, user], rate: 4/s, algorithm: sliding}}",
		"limits: {user: {by: [tenant, user], rate: 4/s, algorithm: log}, net: {by: net, rate: 5/s, algorithm: leaky, wait: 300ms}}",
		"limits: {user: {by: [tenant, user], rate: 4/s, algorithm: leaky, wait: 400ms}, net: {by: net, rate: 5/s}, far: {by: [zone, net], rate: 4/s, algorithm: log}}",
		"limits: {user: {by: [tenant, user], rate: 4/s, mode: soft}, seen: {by: tenant, rate: 4/s, mode: shadow}, net: {by: net, rate: 5/s, mode: shadow}, all: {by: [net], rate: 9/s}}",
		"limits: {user: {by: [tenant, user], rate: 4/s, algorithm: fixed, count: all}, t: {by: tenant, rate: 6/s, penalty: {after: 3, within: 2s, block: 3s}}, all: {rate: 9/s}}",
		"allow: [{user: vip}], deny: [{user: bad}], limits: {user: {by: [tenant, user], tiers: {attribute: plan, default: 2/s, pro: 9/s}}, all: {rate: 12/s}}",
	}
	for k, text := range texts {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			now := int64(1_700_000_000_000_000_000)
			var clients []*client
			var nodes []*groupsNode
			var sets []func(int64)
			for _, groups := range []int{12, 1} {
				clock, set := engine.NewManualClock(now)
				n := startHomesAt(t, groups, clock)
				n.set(t, "pay", "{home: tenant, "+text+"}")
				nodes, clients, sets = append(nodes, n), append(clients, dial(t, n.addr)), append(sets, set)
			}
			denied := 0
			for i := range 400 {
				if rng.IntN(5) == 0 {
					now += []int64{1, 1e6, 50e6, 333e6, 1e9, 1e9 - now%1e9, 1e9 - now%1e9 - 1}[rng.IntN(7)]
				}
				pick := func(of ...string) string { return of[rng.IntN(len(of))] }
				call := "RL.CHECK pay tenant t" + pick("1", "2", "3", "4") + " user " + pick("bob", "eve plan pro", "vip", "bad")
				call += pick(" net a", " net b", "") + pick(" zone z", " zone y", "")
				call += pick("", "", "", " COST 0", " COST 2", " COST 3") + pick("", "", "", " PEEK", " FORCE")
				var replies [2][]any
				for j, c := range clients {
					sets[j](now)
					replies[j] = c.call(call).([]any)
				}
				two, one := replies[0], replies[1]
				require.Equal(t, one[0], two[0], "call %d: %s", i, call)
				asked := len(one[11].([]any)) == len(two[11].([]any))
				if asked && !strings.Contains(text, "count: all") {
					require.Equal(t, one, two, "call %d: %s", i, call)
				}
				// Waits of limits that were not asked, or of limits that count all calls, are not
				// part of the answer.
				require.True(t, asked || two[0] == int64(0))
				for _, l := range two[11].([]any) {
					at := slices.IndexFunc(one[11].([]any), func(other any) bool { return other.([]any)[0] == l.([]any)[0] })
					require.Equal(t, one[11].([]any)[at].([]any)[:4], l.([]any)[:4], "call %d: %s", i, call)
				}
				denied += 1 - int(two[0].(int64))
			}
			two := nodes[0].checks.TwoGroups()
			t.Logf("%d denied, %+v", denied, two)
			require.Greater(t, two.Asked, uint64(50))
			require.Zero(t, nodes[1].checks.TwoGroups())
		})
	}
}
