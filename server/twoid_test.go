package server

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/checks"
)

// ceilingNodes are a node that leads the homes of three groups, and the node that leads their
// ceilings.
type ceilingNodes struct {
	home, ceilings *groupsNode
	// lost makes the stream between them end: before a command arrives, or before its reply.
	lostCommand, lostReply atomic.Bool
	gate                   atomic.Pointer[chan struct{}] // replies wait for it
	gated                  atomic.Bool                   // a reply waits
}

func startCeilingNodes(t *testing.T, policy string, clock *engine.Clock) *ceilingNodes {
	x := &ceilingNodes{home: startHomesAt(t, 3, clock), ceilings: startHomesAt(t, 3, clock)}
	for _, n := range []*groupsNode{x.home, x.ceilings} {
		n.set(t, "pay", policy)
	}
	x.home.groups[0].set(func(f *fakeCluster) {
		f.role = partition.Following
		f.dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", x.ceilings.forward[0])
			return &twoConn{Conn: c, of: x}, err
		}
	})
	return x
}

// twoConn is a stream between the nodes.
type twoConn struct {
	net.Conn
	of    *ceilingNodes
	asked atomic.Bool // it has carried an RL.CEILING since the last reply
}

func (c *twoConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("RL.CEILING")) {
		if c.of.lostCommand.Swap(false) {
			c.Close()
			return len(b), nil
		}
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *twoConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gate := c.of.gate.Load(); gate != nil {
		c.of.gated.Store(true)
		<-*gate
	}
	if c.asked.Swap(false) && c.of.lostReply.Swap(false) {
		c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// used returns how many units of both limits are used.
func (x *ceilingNodes) used(t *testing.T, tenant, user string) (home, ceiling int64) {
	left := dial(t, x.home.addr).call("RL.CHECK pay COST 0 PEEK tenant " + tenant + " user " + user).([]any)[11].([]any)
	capacity := func(i int) int64 { return left[i].([]any)[2].(int64) - left[i].([]any)[3].(int64) }
	return capacity(0), capacity(1)
}

// An ID is charged once in each group, whatever is lost between them.
func TestIDsOfTwoGroups(t *testing.T) {
	clock, set := engine.NewManualClock(1e18)
	x := startCeilingNodes(t, "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/d, algorithm: fixed}, all: {rate: 5/m, algorithm: fixed}}}", clock)
	c := dial(t, x.home.addr)
	far := homesOf(3)[1]
	f := func(what, want string) {
		t.Helper()
		switch reply := c.call("RL.CHECK pay tenant " + far + " user " + what).(type) {
		case error:
			require.ErrorContains(t, reply, want)
		case []any:
			require.Equal(t, want+"\n", fmt.Sprintln(reply[0], reply[6], reply[1], reply[2], len(reply[11].([]any))))
		}
	}
	charged := func(user string, home, ceiling int64) {
		t.Helper()
		h, c := x.used(t, far, user)
		require.Equal(t, []int64{home, ceiling}, []int64{h, c})
	}
	f("bob ID 1", "1 user 3 2 2")
	f("bob ID 1", "1 user 3 2 0")
	charged("bob", 1, 1)
	f("bob COST 2 ID 1", "IDCONFLICT")
	f("eve ID 1", "IDCONFLICT")
	c.call("RL.CHECK pay tenant " + homesOf(3)[2] + " user bob ID 1") // a name of another home
	charged("bob", 1, 2)

	x.lostCommand.Store(true)
	f("bob ID 2", "UNCERTAIN")
	charged("bob", 2, 2)
	f("bob ID 2", "1 user 3 1 0")
	f("bob ID 2", "1 user 3 1 0")
	charged("bob", 2, 3)
	x.lostReply.Store(true)
	f("bob ID 3", "UNCERTAIN")
	charged("bob", 3, 4)
	f("bob ID 3", "1 user 3 0 0")
	charged("bob", 3, 4)
	f("bob ID 4", "0 user 3 0 1")

	// The ceilings deny a call: its ID is free again. If the outcome was unknown, the charge
	// at home stays, and a later repeat may use it.
	f("eve ID 5", "1 all 5 0 2")
	f("eve ID 6", "0 all 5 0 2")
	charged("eve", 1, 5)
	x.lostReply.Store(true)
	f("eve ID 6", "UNCERTAIN")
	charged("eve", 2, 5)
	f("eve ID 6", "0 all 5 0 0")
	charged("eve", 2, 5)
	x.home.groups[0].become(partition.Orphaned)
	f("eve ID 6", "CLUSTERDOWN")
	f("eve ID 7", "CLUSTERDOWN")
	x.home.groups[0].become(partition.Following)
	charged("eve", 2, 5)
	set(1e18 + int64(time.Minute))
	f("eve ID 6", "1 user 3 1 0")
	charged("eve", 2, 1)
	require.EqualValues(t, 3, x.home.checks.TwoGroups().Unknown)
	require.EqualValues(t, 0, x.home.checks.TwoGroups().Kept)

	// The group of the ceilings forgets an ID before the home does.
	set(1e18 + int64(10*time.Minute) - 1e9)
	f("eve ID 6", "TRYAGAIN the ID of the call ends now")
	charged("eve", 2, 0)
	set(1e18 + int64(10*time.Minute) + 1)
	f("eve ID 6", "1 user 3 0 2")
	charged("eve", 3, 1)
}

// A call whose charge a repeat has read is not cancelled: the ceilings may pass the repeat.
func TestARepeatUsesTheCharge(t *testing.T) {
	clock, set := engine.NewManualClock(1e18)
	x := startCeilingNodes(t, "{home: tenant, limits: {user: {by: [tenant, user], rate: 3/d, algorithm: fixed}, all: {rate: 1/m, algorithm: fixed}}}", clock)
	far := homesOf(3)[1]
	check := "RL.CHECK pay tenant " + far + " user bob ID "
	require.EqualValues(t, 1, dial(t, x.home.addr).call(check + "first").([]any)[0])
	gate := make(chan struct{})
	x.gate.Store(&gate)
	first, second := dial(t, x.home.addr), dial(t, x.home.addr)
	first.send(check + "x\r\n")
	eventually(t, "the ceilings have denied the call", func() bool { return x.gated.Load() })
	set(1e18 + int64(time.Minute))
	second.send(check + "x\r\n")
	eventually(t, "the repeat asks the ceilings", func() bool { return x.home.checks.TwoGroups().Asked == 3 })
	x.gate.Store(nil)
	close(gate)
	require.EqualValues(t, 0, first.reply().([]any)[0])
	require.EqualValues(t, 1, second.reply().([]any)[0])
	home, _ := x.used(t, far, "bob")
	require.EqualValues(t, 2, home)
	require.Equal(t, checks.TwoGroups{Asked: 3, Kept: 1}, x.home.checks.TwoGroups())
}

// Calls with IDs, repeated at random while messages are lost, are answered as by one group,
// except that a charge may stay. Each passing ID is charged once in each group.
func TestIDsOfTwoGroupsAtRandom(t *testing.T) {
	const policy = "{home: tenant, limits: {user: {by: [tenant, user], rate: 6/d, algorithm: fixed}, all: {rate: 40/d, algorithm: fixed}}}"
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	now := int64(1e18)
	clock, set := engine.NewManualClock(now)
	x := startCeilingNodes(t, policy, clock)
	one := startHomesAt(t, 1, clock)
	one.set(t, "pay", policy)
	c, oracle := dial(t, x.home.addr), dial(t, one.addr)
	far := homesOf(3)[1]
	type state struct{ home, ceiling bool }
	passes, denials, unknown := 0, 0, 0
	for day := range 4 {
		ids := map[string]*state{}
		charged := map[string]int64{}
		all := int64(0)
		for range 150 {
			user := fmt.Sprint("u", rng.IntN(9))
			id := fmt.Sprintf("%s-%d", user, rng.IntN(9))
			call := "RL.CHECK pay tenant " + far + " user " + user + " ID " + id
			was := ids[id]
			if was == nil {
				was = new(state)
				ids[id] = was
			}
			lose := 2 + day%2*(rng.IntN(8)-2) // nothing is lost on even days
			x.lostCommand.Store(lose == 0)
			x.lostReply.Store(lose == 1)
			home := was.home || charged[user] < 6
			ceiling := was.ceiling || all < 40
			reply := c.call(call)
			lost := !x.lostCommand.Swap(false) && !x.lostReply.Swap(false) && lose < 2
			if home && !was.home { // charged, and perhaps cancelled
				charged[user]++
				was.home = true
			}
			switch {
			case !home:
				require.EqualValues(t, 0, reply.([]any)[0], call)
				delete(ids, id)
			case lost:
				require.ErrorContains(t, reply.(error), "UNCERTAIN", call)
				if lose == 1 && ceiling && !was.ceiling {
					was.ceiling = true
					all++
				}
				unknown++
			case ceiling:
				require.EqualValues(t, 1, reply.([]any)[0], "%s: %v", call, reply)
				if !was.ceiling {
					was.ceiling = true
					all++
				}
				passes++
			default:
				require.EqualValues(t, 0, reply.([]any)[0], call)
				denials++
				if len(reply.([]any)[11].([]any)) > 0 { // this call made the charge
					charged[user]--
					was.home = false
				}
			}
			if h, a := x.used(t, far, user); h != charged[user] || a != all {
				require.Equal(t, []int64{charged[user], all}, []int64{h, a}, call)
			}
			if day%2 == 0 {
				require.Equal(t, oracle.call(call).([]any)[:9], reply.([]any)[:9], call)
			}
		}
		now += int64(48 * time.Hour)
		set(now)
	}
	t.Logf("%d passed, %d denied by the ceilings, %d unknown", passes, denials, unknown)
	require.Positive(t, min(passes, denials, unknown))
	require.Zero(t, x.home.checks.TwoGroups().Kept)
}
