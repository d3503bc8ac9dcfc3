package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// homesOf has a value for each of n groups.
func homesOf(n int) (values []string) {
	for i := range n {
		for j := 0; ; j++ {
			if v := fmt.Sprintf("t%d", j); partition.GroupOf(keySlot([]byte(v)), n) == i {
				values = append(values, v)
				break
			}
		}
	}
	return values
}

// startHomes starts a server that leads n groups.
func startHomes(t *testing.T, n int) *groupsNode { return startHomesAt(t, n, nil) }

// startHomesAt is startHomes with a clock.
func startHomesAt(t *testing.T, n int, clock *engine.Clock) *groupsNode {
	roles := make([]partition.Role, n)
	for i := range roles {
		roles[i] = partition.Leading
	}
	s := startGroupsAt(t, Config{}, clock, roles...)
	for _, p := range s.parts { // nothing waits for commits
		p.Release(1, nil)
	}
	return s
}

// keysIn returns the counters of a group.
func keysIn(e *engine.Engine) (keys []string) {
	sess := e.NewSession()
	defer sess.Close()
	for cursor := uint64(0); ; {
		next, err := sess.Scan(e.Now(), cursor, 100, func(key []byte, _ algo.Algorithm) { keys = append(keys, string(key)) })
		if err != nil {
			panic(err)
		}
		if cursor = next; cursor == 0 {
			return keys
		}
	}
}

func TestChecksRunAtHome(t *testing.T) {
	n := startHomes(t, 3)
	c := dial(t, n.addr)
	require.Equal(t, int64(1), c.call("RL.POLICY SET pay \"limits: {all: {by: tenant, rate: 5/h}, user: {by: [tenant, user], rate: 2/h}}\""))
	require.Equal(t, int64(1), c.call("RL.POLICY SET whole \"limits: {all: {rate: 5/h}, user: {by: user, rate: 2/h}}\""))
	homes := homesOf(3)
	for i, home := range homes {
		require.Equal(t, int64(1), c.call("RL.CHECK pay user bob tenant " + home).([]any)[0])
		require.Equal(t, int64(1), c.call("RL.CHECK whole user " + home).([]any)[0])
		require.Contains(t, keysIn(n.parts[i].Engine()), "@pay:user;tenant="+home+";user=bob")
		require.Contains(t, keysIn(n.parts[i].Engine()), "@pay:all;tenant="+home)
		require.Contains(t, keysIn(n.parts[0].Engine()), "@whole:user;user="+home)
	}
	require.Equal(t, []int{2 + 4, 2, 2}, []int{n.parts[0].Engine().Len(), n.parts[1].Engine().Len(), n.parts[2].Engine().Len()})

	// Holds and IDs.
	for i, home := range homes {
		reply := c.call("RL.RESERVE pay user eve tenant " + home).([]any)
		hold := reply[8].(string)
		require.True(t, strings.HasSuffix(hold, fmt.Sprintf(";%d", keySlot([]byte(home)))), "%v", reply)
		require.Equal(t, i, int(partition.GroupOf(keySlot([]byte(home)), 3)))
		require.Equal(t, hold, c.call("RL.COMMIT " + hold).([]any)[8])
		one := c.call("RL.CHECK pay user id tenant " + home + " ID x")
		require.Equal(t, "1", fmt.Sprint(one.([]any)[0]))
		require.Equal(t, one.([]any)[2], c.call("RL.CHECK pay user id tenant " + home + " ID x").([]any)[2])
		require.NotNil(t, c.call("RL.EXPLAIN @pay:all;tenant="+home))
		require.NotNil(t, c.call("RL.EXPLAIN @whole:user;user="+home))
		require.NotNil(t, c.call("RL.EXPLAIN HOLD "+hold))
	}
}

// failed returns the error of a reply.
func failed(t *testing.T, reply any) error {
	t.Helper()
	err, ok := reply.(error)
	require.True(t, ok, "%v", reply)
	return err
}

// set sets a policy.
func (n *groupsNode) set(t *testing.T, name, text string) {
	t.Helper()
	reply := dial(t, n.addr).call("RL.POLICY SET " + name + " \"" + text + "\"")
	require.IsType(t, int64(0), reply, "%v", reply)
}

const payPolicy = "limits: {all: {by: tenant, rate: 5/h}, user: {by: [tenant, user], rate: 2/h}}"

// A step has the slot of its checks' home.
func TestTransactionsAndScriptsAtHome(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", payPolicy)
	n.set(t, "whole", "limits: {all: {rate: 5/h}}")
	c := dial(t, n.addr)
	homes := homesOf(3)
	for _, home := range homes {
		c.do("MULTI", "+OK\r\n")
		c.do("INCR {"+home+"}:n", "+QUEUED\r\n")
		c.do("RL.CHECK pay tenant "+home+" user bob", "+QUEUED\r\n")
		reply := c.call("EXEC").([]any)
		require.Equal(t, int64(1), reply[0])
		require.Equal(t, int64(1), reply[1].([]any)[0])
		script := "return redis.call('RL.CHECK', 'pay', 'tenant', '" + home + "', 'user', 'bob')[3]"
		require.Equal(t, int64(0), c.call("EVAL \""+script+"\" 1 {"+home+"}"))
		require.ErrorContains(t, failed(t, c.call("EVAL \""+script+"\" 0")), "do not hash to the same slot", "without KEYS")
	}
	c.do("MULTI", "+OK\r\n")
	c.do("RL.CHECK pay tenant "+homes[1]+" user bob", "+QUEUED\r\n")
	c.do("RL.CHECK pay tenant "+homes[2]+" user bob", "-"+errCrossing+"\r\n")
	require.ErrorContains(t, failed(t, c.call("EXEC")), "EXECABORT")
	c.do("MULTI", "+OK\r\n")
	c.do("RL.CHECK pay tenant "+homes[1]+" user bob", "+QUEUED\r\n")
	c.do("RL.CHECK whole", "-"+errKeyless+"\r\n")
	require.ErrorContains(t, failed(t, c.call("EXEC")), "EXECABORT")
	c.do("MULTI", "+OK\r\n")
	require.ErrorContains(t, failed(t, c.call("RL.POLICY SET pay \""+payPolicy+"\"")), "not allowed")
	require.ErrorContains(t, failed(t, c.call("EXEC")), "EXECABORT")
}

// Leases, descriptors, explanations and resets run at home too.
func TestOtherCommandsAtHome(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "lend", "limits: {all: {by: tenant, rate: 1000/s}}")
	n.set(t, "pay", payPolicy)
	c := dial(t, n.addr)
	homes := homesOf(3)
	for i, home := range homes {
		before := n.parts[i].Engine().Len()
		require.Equal(t, "ok", c.call("RL.DESCRIPTORS pay 1 2 2 tenant " + home + " user bob - - 2 tenant " + home + " user eve - -").([]any)[0])
		require.Equal(t, before+3, n.parts[i].Engine().Len())
		require.Equal(t, int64(1), c.call("RL.LEASE POLICY lend tenant " + home + " ID h1 SEQ 1 WANT 20").([]any)[0])
		holders := c.call("RL.TOP POLICY lend HOLDERS").([]any)
		require.Len(t, holders, 1, "of the only lease that is out")
		require.Equal(t, int64(1), c.call("RL.RETURN POLICY lend tenant "+home+" ID h1 SEQ 2 HELD 1"))
		explained := fmt.Sprint(c.call("RL.EXPLAIN POLICY pay tenant " + home + " user bob"))
		require.Contains(t, explained, "@pay:user;tenant="+home+";user=bob")
		require.Contains(t, explained, "capacity 2 remaining 0 ")
		require.Equal(t, int64(2), c.call("RL.POLICY RESET pay tenant "+home+" user bob"))
		require.Contains(t, fmt.Sprint(c.call("RL.EXPLAIN POLICY pay tenant "+home+" user bob")), "capacity 2 remaining 1 ")
	}
	require.ErrorContains(t, failed(t, c.call("RL.DESCRIPTORS pay 1 2 1 tenant "+homes[1]+" - - 1 tenant "+homes[2]+" - -")), "need separate requests")
	require.ErrorContains(t, failed(t, c.call("RL.COMMIT pay;x;99999")), "NOHOLD")

	// A name without the slot is not found, and the error says what it lacks.
	n.set(t, "whole", "limits: {all: {rate: 5/h}}")
	for _, home := range homes[1:] {
		hold := c.call("RL.RESERVE pay tenant " + home + " user ann ID x").([]any)[8].(string)
		require.True(t, strings.HasPrefix(hold, "pay;x;"), hold)
		for _, command := range []string{"RL.CANCEL", "RL.COMMIT", "RL.EXPLAIN HOLD"} {
			require.EqualError(t, failed(t, c.call(command+" pay;x")), "NOHOLD there is no hold 'pay;x', the name of a hold of this policy is policy;id;slot")
		}
		// A repeat replies the name.
		require.Equal(t, hold, c.call("RL.RESERVE pay tenant " + home + " user ann ID x").([]any)[8])
		require.Equal(t, "cancelled", c.call("RL.CANCEL " + hold).([]any)[7])
	}
	for _, hold := range []string{"pay;x;0", "whole;x", "none;x"} {
		require.EqualError(t, failed(t, c.call("RL.CANCEL "+hold)), "NOHOLD there is no hold '"+hold+"'")
	}
}

// What the text leaves open is a warning. An edit that moves the home says so, and resets.
func TestEditsOfHomes(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", payPolicy)
	c := dial(t, n.addr)
	home := homesOf(3)[2]
	remaining := func() any { return c.call("RL.CHECK pay tenant " + home + " user bob COST 0 PEEK").([]any)[2] }
	c.call("RL.CHECK pay tenant " + home + " user bob")
	require.Equal(t, int64(1), remaining())
	n.set(t, "pay", strings.Replace(payPolicy, "5/h", "6/h", 1))
	require.Equal(t, int64(1), remaining(), "the home stays")
	const none = "limits: {all: {by: tenant, rate: 5/h}, user: {by: [tenant, user], rate: 2/h}, net: {by: ip, rate: 9/h}}"
	require.Contains(t, fmt.Sprint(c.call("RL.POLICY SET pay DRYRUN \""+none+"\"")), "home: tenant -> nothing (all counters begin at zero)")
	require.Contains(t, fmt.Sprint(c.call("RL.POLICY SET pay DRYRUN \""+none+"\"")), "the first group decides all calls of the policy")
	n.set(t, "pay", none)
	require.Equal(t, int64(2), remaining())
	c.call("RL.CHECK pay tenant " + home + " user bob")
	n.set(t, "pay", payPolicy)
	require.Equal(t, int64(2), remaining(), "what was counted before the home moved stays void")
	require.Contains(t, fmt.Sprint(c.call("RL.POLICY CHECK \"policies: {p: {limits: {a: {by: [user, tenant], rate: 1/s}}}}\"")), "write `home: user` if that is right, or `home: tenant`")
	require.Empty(t, c.call("RL.POLICY CHECK \"policies: {p: {home: tenant, require: [user, tenant], limits: {a: {by: [user, tenant], rate: 1/s}}}}\""))
}

// A node decides nothing on policies that are older than what its group has confirmed.
func TestANodeThatIsBehindDoesNotDecide(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", payPolicy)
	c := dial(t, n.addr)
	check := "RL.CHECK pay tenant " + homesOf(3)[1] + " user bob"
	require.Equal(t, int64(1), c.call(check).([]any)[0])
	for i, p := range n.parts {
		require.Equal(t, "1", string(p.Engine().PolicyRecord("~number")), "group %d has confirmed the change", i)
	}
	sess := n.parts[2].Engine().NewSession()
	defer sess.Close()
	require.NoError(t, sess.EditPolicies(func(func(string) []byte) ([]engine.PolicyRecord, error) {
		return []engine.PolicyRecord{{Name: "~number", Value: []byte("99")}}, nil
	}))
	require.ErrorContains(t, failed(t, c.call(check)), "TRYAGAIN")
	require.ErrorContains(t, failed(t, c.call("RL.CHECK unknown")), "TRYAGAIN")
}

// A change that a group cannot confirm is made all the same, and its error says that
// nobody knows. TRYAGAIN and CLUSTERDOWN would say that nothing has changed.
func TestAChangeThatAGroupDoesNotConfirm(t *testing.T) {
	n := startHomes(t, 3)
	n.leads(2, false)
	begun := time.Now()
	var clients []*client
	for i := range 3 {
		c := dial(t, n.addr)
		c.send(fmt.Sprintf("RL.POLICY SET pay%d \"%s\"\r\n", i, payPolicy))
		clients = append(clients, c)
	}
	for _, c := range clients { // none waits for those before it
		require.ErrorContains(t, failed(t, c.reply()), "UNCERTAIN the change is made")
	}
	require.Less(t, time.Since(begun), 9*time.Second)
	require.Contains(t, fmt.Sprint(dial(t, n.addr).call("RL.POLICY LIST")), "pay0")
}

// A call whose home this node and the leader do not agree on is not counted.
func TestNodesThatKnowOtherHomes(t *testing.T) {
	n := startHomes(t, 3)
	n.set(t, "pay", payPolicy)
	homes := homesOf(3)
	for group := range homes {
		c := dial(t, n.forward[group])
		for at, home := range homes {
			reply := c.call("RL.CHECK pay user bob tenant " + home)
			if at == group {
				require.IsType(t, []any{}, reply)
			} else {
				require.ErrorContains(t, failed(t, reply), "TRYAGAIN policies are being changed")
			}
		}
		require.Equal(t, 2, n.parts[group].Engine().Len())
	}
}
