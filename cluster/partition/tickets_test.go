package partition

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
)

// quietFront counts the partition's calls.
type quietFront struct{ rechecks int }

func (f *quietFront) Recheck()                         { f.rechecks++ }
func (*quietFront) AwaitBatches(context.Context) error { return nil }
func (*quietFront) TermChanged()                       {}
func (*quietFront) Deposed()                           {}
func (*quietFront) LeaderChanged(_, _ TopologyNode)    {}

// alonePartition is the partition of a node on its own.
func alonePartition() (*Partition, *quietFront) {
	f := new(quietFront)
	return New(Config{Engine: engine.New(engine.Config{}), Front: f}), f
}

func TestANodeOnItsOwnLeads(t *testing.T) {
	p, _ := alonePartition()
	require.True(t, p.Alone())
	require.Equal(t, Leading, p.Role())
	require.Equal(t, Standing{Role: Leading}, p.Standing())
	require.Zero(t, p.TakeTicket(), "nothing is waited for")
	complete, err := p.Completed().Outcome(0, 0)
	require.True(t, complete)
	require.NoError(t, err)
	require.Zero(t, p.AwaitReplicas(t.Context(), 1))
	_, err = p.DialLeader(t.Context())
	require.Error(t, err)
}

func TestTicketsCompleteInOrder(t *testing.T) {
	p, f := alonePartition()
	late := errors.New("UNCERTAIN late")
	before := p.Completed()
	p.Release(2, nil)
	require.False(t, before.Has(1), "what is known at a moment does not change")
	for ticket, want := range map[uint64]bool{1: true, 2: true, 3: false} {
		complete, err := p.Completed().Outcome(1, ticket)
		require.Equal(t, want, complete, ticket)
		require.NoError(t, err)
		require.Equal(t, want, p.Completed().Has(ticket), ticket)
	}
	p.Release(1, late)
	p.Release(2, late)
	require.Equal(t, 1, f.rechecks, "a release that comes late changes nothing")
	_, err := p.Completed().Outcome(1, 2)
	require.NoError(t, err)
}

// A batch that began before a failure has failed, whatever its ticket is.
func TestAFailureConcernsTheBatchesThatItEnds(t *testing.T) {
	p, _ := alonePartition()
	lost := errors.New("UNCERTAIN lost")
	p.Release(2, nil)
	p.Release(4, lost)
	p.Release(6, nil)
	for _, tc := range []struct {
		since, ticket uint64
		want          error
	}{
		{1, 2, nil}, {2, 3, lost}, {3, 4, lost}, {4, 5, lost}, {2, 6, lost}, {5, 6, nil},
	} {
		complete, err := p.Completed().Outcome(tc.since, tc.ticket)
		require.True(t, complete)
		require.Equal(t, tc.want, err, tc)
		require.Equal(t, tc.want != nil, p.Completed().Lost(tc.since, tc.ticket), tc)
	}
}

// Only a reply all of whose tickets were undone is known to have changed nothing.
func TestWhatIsUndoneInPartIsUncertain(t *testing.T) {
	p, _ := alonePartition()
	p.Release(2, nil)
	p.Release(4, ErrUndone)
	p.Release(6, nil)
	for _, tc := range []struct {
		since, ticket uint64
		want          error
	}{
		{1, 2, nil}, {3, 3, ErrUndone}, {3, 4, ErrUndone}, {4, 4, ErrUndone}, {5, 6, nil},
		{2, 3, ErrUncertain}, {4, 5, ErrUncertain}, {2, 6, ErrUncertain},
	} {
		complete, err := p.Completed().Outcome(tc.since, tc.ticket)
		require.True(t, complete)
		require.Equal(t, tc.want, err, tc)
		require.Equal(t, tc.want != nil, p.Completed().Lost(tc.since, tc.ticket), tc)
	}
}

func TestUnverifiedTicketsAreNotLost(t *testing.T) {
	p, _ := alonePartition()
	p.Release(1, ErrUnverified)
	_, err := p.Completed().Outcome(1, 1)
	require.ErrorIs(t, err, ErrUncertain)
	require.False(t, p.Completed().Lost(1, 1))
}

func TestFailuresAreBounded(t *testing.T) {
	p, _ := alonePartition()
	for ticket := range uint64(3 * failuresKept) {
		p.Release(ticket+1, ErrUncertain)
	}
	require.Len(t, p.Completed().failed, failuresKept)
	_, err := p.Completed().Outcome(3*failuresKept, 3*failuresKept)
	require.Error(t, err)
}

// A reply may wait for longer than failures are remembered one by one: in a flight, or on a
// worker.
func TestNoFailureIsForgotten(t *testing.T) {
	p, _ := alonePartition()
	p.Release(1, nil)
	p.Release(2, ErrUnverified)
	for ticket := range uint64(2 * failuresKept) {
		p.Release(2*ticket+3, nil)
		p.Release(2*ticket+4, ErrUnverified)
	}
	_, err := p.Completed().Outcome(2, 2)
	require.ErrorIs(t, err, ErrUncertain)
	require.True(t, p.Completed().Lost(2, 2), "nobody knows any more that nothing was lost")
	_, err = p.Completed().Outcome(1, 1)
	require.NoError(t, err, "it came before all failures")
	last := p.Completed().upTo
	_, err = p.Completed().Outcome(last-1, last-1)
	require.NoError(t, err, "the latest are told apart")
}

func TestASealedEngineTakesNoTickets(t *testing.T) {
	e := engine.New(engine.Config{})
	e.Replicate(ledger.New(ledger.Hooks{}))
	require.Equal(t, uint64(TicketLost), New(Config{Engine: e, Front: new(quietFront)}).TakeTicket())
}

// The time without a leader begins at the first look without one, and anew when
// one has been seen, or told, in between.
func TestLeaderless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := alonePartition()
		time.Sleep(time.Hour)
		for range 2 {
			require.Zero(t, p.Leaderless(true))
			require.Zero(t, p.Leaderless(false), "the first look")
			for second := range time.Duration(3) {
				time.Sleep(time.Second)
				require.Equal(t, (second+1)*time.Second, p.Leaderless(false))
			}
		}
		p.LeaderChanged(TopologyNode{}, TopologyNode{ID: "n"})
		require.Zero(t, p.Leaderless(false))
		time.Sleep(time.Second)
		require.Equal(t, time.Second, p.Leaderless(false))
	})
}

// Between the notices of two leaders, a caller finds the leader lost for a
// moment at most, not since the node began.
func TestLeaderlessBesideANewLeader(t *testing.T) {
	p, _ := alonePartition()
	p.begun = time.Now().Add(-time.Hour)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				p.LeaderChanged(TopologyNode{}, TopologyNode{ID: "n"})
			}
		}
	}()
	for range 20_000 {
		require.Less(t, p.Leaderless(false), 30*time.Minute)
	}
	close(stop)
	<-done
}
