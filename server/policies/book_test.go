package policies

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/events"
)

func newTestBook() *Book {
	return NewBook(engine.New(engine.Config{Shards: 8}), nil, slog.New(slog.DiscardHandler), false, events.New(), checks.NewTallies())
}

// ofPolicy is the record of a policy that has one limit.
func ofPolicy(name string, version uint64, rate int) engine.PolicyRecord {
	st := stored{Version: version, Revision: version, Text: fmt.Sprintf("{limits: {l: {by: user, rate: %d/s}}}", rate)}
	return engine.PolicyRecord{Name: name, Value: st.encode()}
}

// ofOverride is the record of an override of limit l of a policy.
func ofOverride(name string, rate int64) engine.PolicyRecord {
	o := policy.Override{Policy: name, Kind: policy.OverrideLimit, Limit: "l", By: ";user=eve", Rate: policy.Rate{Amount: rate, Period: 1e9}}
	return engine.PolicyRecord{Name: overrideRecord(&o), Value: o.Append(nil)}
}

// rateOf returns the rate that a policy gives eve, 0 for no such policy.
func rateOf(t *testing.T, set *policy.Set, name string) int64 {
	p := set.Policy([]byte(name))
	if p == nil {
		return 0
	}
	c := policy.NewCall()
	c.Begin(p)
	require.NoError(t, c.Set([]byte("user"), []byte("eve")))
	_, err := c.Match(1)
	require.NoError(t, err)
	_, ready := c.Applied[0].Numbers.Handle.(engine.Ready)
	require.True(t, ready, "its numbers are interned")
	return c.Applied[0].Numbers.Rate.Amount
}

// Committed records that are not taken over yet are bounded in bytes. Beyond that the set is
// made of all records, each at its last value.
func TestNewsOfPoliciesAreBounded(t *testing.T) {
	b := newTestBook()
	b.hear([]engine.PolicyRecord{ofPolicy("kept", 1, 11), ofPolicy("goes", 1, 12), ofOverride("kept", 13)}, false)
	require.EqualValues(t, 13, rateOf(t, b.Set(), "kept"))
	b.queue.most = 10_000
	b.making.Lock() // somebody is at it
	for i := range 300 {
		gone := ofOverride("kept", 13)
		gone.Value = nil
		b.hear([]engine.PolicyRecord{ofPolicy(fmt.Sprintf("p%d", i%50), uint64(i+1), i+100), gone, {Name: "goes"}, ofOverride("p7", int64(i+1))}, false)
		bytes := 0
		for _, r := range b.queue.news {
			bytes += len(r.Name) + len(r.Value)
		}
		require.LessOrEqual(t, bytes, b.queue.most)
		require.Equal(t, bytes, b.queue.bytes)
	}
	b.making.Unlock()
	for range 2 {
		set := b.Set()
		require.Len(t, set.Names(), 51)
		require.EqualValues(t, 11, rateOf(t, set, "kept"), "an override that went")
		require.EqualValues(t, 300, rateOf(t, set, "p7"), "and one that came")
		require.EqualValues(t, 399, rateOf(t, set, "p49"), "the last version")
		require.Zero(t, rateOf(t, set, "goes"))
		require.Nil(t, b.record("goes"))
		b.hear([]engine.PolicyRecord{ofPolicy("one more", 1, 1)}, false) // in vain: it has no such name
		require.Error(t, func() error { b.Set(); return b.trouble("one more") }())
	}
	// A snapshot that comes while they wait replaces them.
	b.making.Lock()
	for i := range 300 {
		b.hear([]engine.PolicyRecord{ofPolicy(fmt.Sprintf("q%d", i), 1, 1)}, false)
	}
	b.hear([]engine.PolicyRecord{ofPolicy("only", 1, 5)}, true)
	b.making.Unlock()
	require.Equal(t, []string{"only"}, b.Set().Names())
	require.Nil(t, b.record("q7"))
	// A set of all records that is followed by too many news is part of the records.
	b.making.Lock()
	b.hear([]engine.PolicyRecord{ofPolicy("other", 1, 5)}, true)
	for i := range 300 {
		b.hear([]engine.PolicyRecord{ofPolicy(fmt.Sprintf("q%d", i%2), 1, i+1)}, false)
	}
	b.making.Unlock()
	require.Equal(t, []string{"other", "q0", "q1"}, b.Set().Names())
	require.EqualValues(t, 300, rateOf(t, b.Set(), "q1"))
}

// A check that comes while a change is taken over waits for it.
func TestReadersWaitForWhatIsTaken(t *testing.T) {
	b := newTestBook()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11)}, false)
	b.Set()
	b.making.Lock() // somebody is at it
	b.hear([]engine.PolicyRecord{ofPolicy("p", 2, 12)}, false)
	bt, some := b.take()
	require.True(t, some)
	read := make(chan int64)
	go func() { read <- rateOf(t, b.Set(), "p") }()
	select {
	case rate := <-read:
		require.Fail(t, "the check has policies older than those that are committed", "%d", rate)
	case <-time.After(50 * time.Millisecond):
	}
	next, _ := b.next(b.view.Load(), &bt)
	b.view.Store(next)
	b.done()
	b.making.Unlock()
	require.EqualValues(t, 12, <-read)
}

// A reader that asks while changes arrive finds what was committed when it asked, or newer.
func TestReadersNeverSeeOlderPolicies(t *testing.T) {
	b := newTestBook()
	var committed atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !done.Load() {
				least := committed.Load()
				if p := b.Set().Policy([]byte("p")); p != nil && int64(p.Version) < least || p == nil && least > 0 {
					t.Errorf("a check has policies older than version %d", least)
					return
				}
			}
		})
	}
	for v := range uint64(5000) {
		b.hear([]engine.PolicyRecord{ofPolicy("p", v+1, 1+int(v))}, false)
		committed.Store(int64(v + 1))
	}
	done.Store(true)
	wg.Wait()
}

// A reader that need not know a large change does not wait for it: a log, a follower that
// answers alone, INFO.
func TestLookWithoutWaiting(t *testing.T) {
	b := newTestBook()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11)}, false)
	b.Set()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 2, 12), ofPolicy("q", 1, 1)}, false)
	require.Equal(t, 2, b.Stats().Policies, "a small change is taken over")
	b.making.Lock() // somebody is at it
	defer b.making.Unlock()
	large := make([]engine.PolicyRecord, 0, 1000)
	for i := range cap(large) {
		large = append(large, ofPolicy(fmt.Sprintf("p%d", i), 1, 1))
	}
	b.hear(large, false)
	args := [][]byte{[]byte("RL.CHECK"), []byte("p"), []byte("user"), []byte("eve")}
	look := func() {
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			set, behind := b.Current()
			assert.NotNil(t, set.Policy([]byte("p")))
			assert.True(t, behind)
			assert.Equal(t, 2, b.Stats().Policies)
			assert.NoError(t, b.trouble("p"))
			assert.Equal(t, []int{3}, b.Hide([]byte("p"), args, 2, nil), "the change may make it a secret")
		}()
		select {
		case <-looked:
		case <-time.After(20 * time.Second):
			require.Fail(t, "who looks waits")
		}
	}
	look()
	b.take() // it is being taken over
	look()
	b.hear([]engine.PolicyRecord{ofPolicy("q", 2, 1)}, false) // and a small one comes
	look()
}

// Of overrides a policy is made anew without reading its text, and gives back what
// it has taken of the engine.
func TestOverridesShareThePolicy(t *testing.T) {
	b := newTestBook()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 11)}, false)
	before := b.Set().Policy([]byte("p"))
	for i := range 50 {
		b.hear([]engine.PolicyRecord{ofOverride("p", int64(20+i))}, false)
		require.EqualValues(t, 20+i, rateOf(t, b.Set(), "p"))
	}
	after := b.Set().Policy([]byte("p"))
	require.Same(t, before.Record, after.Record)
	require.Same(t, before.Handle, after.Handle, "counts go on")
	require.NotSame(t, before, after)
	require.Same(t, after, after.Limits[0].Policy)
	gone := ofOverride("p", 0)
	gone.Value = nil
	b.hear([]engine.PolicyRecord{gone}, false)
	require.EqualValues(t, 11, rateOf(t, b.Set(), "p"))
	b.hear([]engine.PolicyRecord{{Name: "p"}}, false)
	require.Empty(t, b.Set().Names())
}

// Overrides that come and go take no limits of the engine, and take none away that
// are in use.
func TestOverridesGiveTheirLimitsBack(t *testing.T) {
	b := newTestBook()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.engine.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	b.hear([]engine.PolicyRecord{ofPolicy("p", 1, 1_000_000)}, false)
	b.Set()
	const changes = 3000
	sess := b.engine.NewSession()
	defer sess.Close()
	// Limits that nobody uses are collected when there are many.
	collected := func() {
		for i := range changes {
			_, err := sess.Decide(b.engine.Now(), []byte("k"), algo.Limit{Limit: int64(1 + i), Period: 1e9}, 1, nil)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return b.engine.Stats().Limits < changes/2 }, time.Minute, 10*time.Millisecond, "%d limits", b.engine.Stats().Limits)
		for _, n := range b.Set().Policy([]byte("p")).AllNumbers() {
			r, ok := n.Handle.(engine.Ready)
			require.True(t, ok)
			again, err := b.engine.Ready(r.Limit())
			require.NoError(t, err)
			require.True(t, r == again, "the engine has it as it was")
			b.engine.Release(again)
		}
	}
	for i := range changes {
		b.hear([]engine.PolicyRecord{ofOverride("p", int64(1+i))}, false)
		require.EqualValues(t, 1+i, rateOf(t, b.Set(), "p"))
		if i == 0 {
			collected()
		}
	}
	collected()
}

// Policies that had overrides and go give back all limits, those of their texts too.
func TestOverriddenPoliciesGiveTheirLimitsBack(t *testing.T) {
	b := newTestBook()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.engine.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	const n = 2000
	var come, overridden, again, gone []engine.PolicyRecord
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		come = append(come, ofPolicy(name, 1, 1_000+i))
		overridden = append(overridden, ofOverride(name, int64(10_000+i)))
		again = append(again, ofOverride(name, int64(20_000+i)))
		last := ofOverride(name, 1)
		last.Value = nil
		gone = append(gone, last, engine.PolicyRecord{Name: name})
	}
	for _, news := range [][]engine.PolicyRecord{come, overridden, again} {
		b.hear(news, false)
		require.Len(t, b.Set().Names(), n)
	}
	require.GreaterOrEqual(t, b.engine.Stats().Limits, 2*n)
	b.hear(gone, false)
	require.Empty(t, b.Set().Names())
	// Limits that nobody uses are collected when there are many.
	sess := b.engine.NewSession()
	defer sess.Close()
	for i := range 10 * n {
		_, err := sess.Decide(b.engine.Now(), []byte("k"), algo.Limit{Limit: int64(1 + i), Period: 1e9}, 1, nil)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return b.engine.Stats().Limits < n }, 20*time.Second, 10*time.Millisecond, "limits that nobody has")
}
