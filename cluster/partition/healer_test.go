package partition

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// nineAnHour is a limit of which each of three voters has three.
var nineAnHour = algo.Limit{Limit: 9, Period: 3600e9}

// threeVoters is a topology in which this node is n2.
var threeVoters = Topology{Self: "n2", Nodes: []TopologyNode{
	{ID: "n3", Voter: true}, {ID: "n1", Voter: true}, {ID: "n2", Voter: true}, {ID: "spare"},
}}

func TestOnlyAVoterThatHasReplayedItsLogDecidesOnAShare(t *testing.T) {
	f := newFake(Orphaned)
	f.topology = threeVoters
	f.topology.Self = "spare"
	p := fakePartition(t, f, FailLocal)
	decide := func() error {
		_, err := p.Degraded().Decide(p.Engine().Now(), []byte("k"), nineAnHour, 1, &algo.Options{})
		return err
	}
	require.ErrorIs(t, decide(), engine.ErrNotLocal)
	f.set(func(f *fakeReplication) { f.topology.Self = "n1"; f.role = Starting })
	require.ErrorIs(t, decide(), engine.ErrNotLocal)
	f.become(Orphaned)
	require.NoError(t, decide())
	for rank, self := range []string{"n1", "n2", "n3"} { // a limit below 3 is decided by one of them
		f.set(func(f *fakeReplication) { f.topology.Self = self })
		voters, own, ok := p.ownShare()
		require.Equal(t, []any{3, rank, true}, []any{voters, own, ok})
	}
}

func TestPoliciesDecideWithoutALeader(t *testing.T) {
	key := []byte("k")
	for policy, remaining := range map[OnFailure]int64{FailOpen: 8, FailLocal: 2} {
		f := newFake(Orphaned)
		f.topology = threeVoters
		l := fakePartition(t, f, policy).Degraded()
		d, err := l.Decide(1e18, key, nineAnHour, 1, &algo.Options{})
		require.NoError(t, err)
		require.Equal(t, remaining, d.Remaining, policy)
		var out [2]algo.Decision
		_, err = l.DecideAll(1e18, []engine.Segment{{Key: []byte("a"), Limit: nineAnHour, Cost: 1}, {Key: []byte("b"), Limit: nineAnHour, Cost: 1}}, &algo.Options{}, out[:])
		require.NoError(t, err)
		require.Equal(t, remaining, out[1].Remaining)
		_, holder, err := l.Acquire(1e18, []byte("s"), 3, 1e9, nil, 1)
		if policy == FailLocal {
			require.ErrorIs(t, err, engine.ErrNotLocal, "slots have no shares")
		} else {
			require.NoError(t, err)
			require.NotEmpty(t, holder)
		}
	}
}

// deposedOnce loses the lead and regains it between two looks at the ticket.
type deposedOnce struct {
	*fakeReplication
	depose func()
}

func (d *deposedOnce) Since() uint64 {
	defer d.depose()
	return d.fakeReplication.Since()
}

// A charge that the leader itself has undone is not taken for committed.
func TestTheLeaderItselfIsChargedWhenThatIsCommitted(t *testing.T) {
	d := &deposedOnce{newFake(Leading), func() {}}
	p := fakePartition(t, d, FailClosed)
	h := newHealer(p, newShare(p))
	defer h.stop()
	h.number = 1
	h.pending = []engine.Charge{{Key: []byte("k"), Limit: algo.Limit{Limit: 9, Period: 1e9}, Units: 3}}
	d.depose = sync.OnceFunc(func() {
		p.Release(d.ticket.Add(1)-1, ErrUncertain)
		p.Release(d.ticket.Load(), nil)
	})
	require.ErrorIs(t, h.charge(Leading), ErrUncertain)
	require.NoError(t, h.charge(Leading))
}

// The leader may charge a follower that is sent heartbeats and no entries, or is
// far behind. Its copy has not been charged: a share taken anew would be admitted
// twice.
func TestSharesAreTakenAnewFromWhatHasBeenCharged(t *testing.T) {
	f := newFake(Orphaned)
	f.topology = threeVoters
	p := fakePartition(t, f, FailLocal)
	s := newShare(p)
	h := newHealer(p, s)
	defer h.stop()
	key := []byte("k")
	remaining := func(cost int64) int64 {
		d, err := s.Decide(p.Engine().Now(), key, nineAnHour, cost, &algo.Options{})
		require.NoError(t, err)
		return d.Remaining
	}
	require.EqualValues(t, 1, remaining(2))
	var charged string
	f.set(func(f *fakeReplication) {
		f.role, f.dial = Following, scriptedLeader(t, func(c string) string { charged = c; return "+OK\r\n" })
	})
	quiet := func() {
		s.mu.Lock()
		s.asked = time.Now().Add(-2 * gapQuiet)
		s.mu.Unlock()
		h.heal()
	}
	quiet()
	require.Contains(t, charged, "RL.CHARGE n2")
	require.EqualValues(t, 1, remaining(0), "it goes on deciding on what is left of its share")

	node, number, charges, err := ParseCharges(bytes.Fields([]byte(charged)))
	require.NoError(t, err)
	require.NoError(t, p.ChargeOnce(h.session, p.engine.Now(), node, number, charges)) // as by an entry of the leader
	quiet()
	require.EqualValues(t, 2, remaining(0), "a third of the seven that are left")
}

// A batch whose answer does not come, or is an error, is sent again as it was:
// under its number. One that is charged is forgotten.
func TestChargesTravelUntilTheLeaderHasThem(t *testing.T) {
	f := newFake(Orphaned)
	f.topology = threeVoters
	p := fakePartition(t, f, FailLocal)
	var mu sync.Mutex
	var got []string
	dial := scriptedLeader(t, func(c string) string {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, c)
		switch len(got) {
		case 1:
			return ""
		case 2:
			return "-ERR not now\r\n"
		}
		return "+OK\r\n"
	})
	_, err := p.Degraded().Decide(p.Engine().Now(), []byte("k"), nineAnHour, 2, &algo.Options{})
	require.NoError(t, err)
	f.set(func(f *fakeReplication) { f.role, f.dial = Following, dial })
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) >= 3
	}, patience, time.Millisecond)
	time.Sleep(3 * healEvery)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, got, 3, "it is charged once")
	require.Regexp(t, `^RL\.CHARGE n2 \d+ k 0 0 0 9 3600000000000 \d+ 2$`, got[0])
	require.Equal(t, got[0], got[1])
	require.Equal(t, got[0], got[2])
}
