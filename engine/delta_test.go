package engine_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// logSet makes hits on a sorted set that is a sliding log of 1000, as libraries do. Old
// members go, one member comes, the time to live begins anew.
func logSet(t require.TestingT, s *engine.Session, from, to int) {
	for i := from; i < to; i++ {
		now := start + int64(i)*second/1000
		v, err := s.Open(now, []byte("log"), algo.SortedSet)
		require.NoError(t, err)
		z := packed.NewSortedSet(v)
		z.RemoveRange(0, z.Below(float64(i-1000), true))
		_, err = z.Put(logMember(i), float64(i))
		require.NoError(t, err)
		v.SetDeadline(now + minute)
		v.Close()
	}
}

func logMember(i int) []byte { return strconv.AppendInt(nil, int64(1_700_000_000_000_000+i), 10) }

// pair returns a leader with a full log, nothing of it dirty, and a follower.
func pair(t *testing.T) (leader, follower *node) {
	leader, follower = newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
	leader.r.Lead(start)
	logSet(t, leader.s, 0, 1000)
	send(t, leader, follower)
	return leader, follower
}

// send cuts and commits a batch.
func send(t *testing.T, leader *node, followers ...*node) (deltas, size int) {
	parts, ok := leader.r.Cut(1 << 20)
	require.True(t, ok)
	clock := leader.r.Now()
	for _, p := range parts {
		deltas += countDeltas(t, p)
		size += len(p)
	}
	require.True(t, leader.l.Commit())
	leader.r.Committed(clock)
	for _, f := range followers {
		require.NoError(t, f.r.Apply(parts, clock))
		require.Equal(t, leader.table(start), f.table(start))
	}
	return deltas, size
}

// A log in a sorted set takes at most three times the changed bytes, plus ten, however
// many hits a cut has.
func TestALogInASortedSetTravelsAsItsChanges(t *testing.T) {
	change := len(logMember(0)) + 8 // member and score
	leader, follower := pair(t)
	for i, hits := 1000, 1; hits <= 250; hits *= 2 {
		logSet(t, leader.s, i, i+hits)
		i += hits
		deltas, size := send(t, leader, follower)
		require.Equal(t, 1, deltas)
		t.Logf("%d hits: %.2f times the bytes of the changes", hits, float64(size)/float64(hits*change))
		require.LessOrEqual(t, size, 3*hits*change+10, "%d hits", hits)
	}
}

// A state that has changed much, has changed its kind, or is new travels whole.
func TestWholeStates(t *testing.T) {
	leader, follower := pair(t)
	whole := func(deltas, size int) {
		t.Helper()
		require.Zero(t, deltas)
	}
	logSet(t, leader.s, 1000, 1500)
	whole(send(t, leader, follower))
	_, err := leader.s.Delete(start, []byte("log"))
	require.NoError(t, err)
	logSet(t, leader.s, 1500, 1700)
	whole(send(t, leader, follower))
	_, err = leader.s.Set(start, []byte("text"), bytes.Repeat([]byte("t"), 5000), &engine.SetOptions{})
	require.NoError(t, err)
	whole(send(t, leader, follower))
	_, err = leader.s.Copy(start, []byte("text"), []byte("log"), 0, true)
	require.NoError(t, err)
	whole(send(t, leader, follower))
	_, err = leader.s.Set(start, []byte("text"), bytes.Repeat([]byte("t"), 5001), &engine.SetOptions{})
	require.NoError(t, err)
	deltas, size := send(t, leader, follower)
	require.Equal(t, 1, deltas)
	require.Less(t, size, 200)
}

// A node whose state is not the base of a delta stops, changes nothing, and names the
// key.
func TestADeltaFromAnotherStateIsAnError(t *testing.T) {
	leader, follower := pair(t)
	logSet(t, leader.s, 1000, 1001)
	parts, ok := leader.r.Cut(1 << 20)
	require.True(t, ok)
	f := func(n *node) {
		t.Helper()
		before := n.table(start)
		err := n.r.Apply(parts, start)
		require.ErrorIs(t, err, engine.ErrBase)
		require.ErrorContains(t, err, `key "log" of database 0`)
		require.Equal(t, before, n.table(start))
	}
	f(newNode(t, engine.Config{}))
	number := newNode(t, engine.Config{}) // of another kind
	number.r.Lead(start)
	_, err := number.s.Incr(start, []byte("log"), -1)
	require.NoError(t, err)
	send(t, number)
	number.depose()
	f(number)
	require.NoError(t, follower.r.Apply(parts, start))
	f(follower) // which has it already
	other, _ := pair(t)
	logSet(t, other.s, 1000, 1002)
	other.depose()
	logSet(t, leader.s, 1001, 1002)
	parts, _ = leader.r.Cut(1 << 20)
	f(other)
}

// A snapshot after the first parts of a batch has its clock. Keys that expire by that
// clock are still bases of the batch's deltas.
func TestTheClockOfAnIncompleteBatchHasNotPassed(t *testing.T) {
	clock, set := engine.NewManualClock(start)
	leader := newNode(t, engine.Config{Clock: clock})
	leader.r.Lead(start)
	logSet(t, leader.s, 0, 1000)
	deadline := start + second + minute
	send(t, leader)
	var snap bytes.Buffer
	require.NoError(t, leader.r.Snapshot().Persist(&snap))
	logSet(t, leader.s, 1000, 1010) // before the deadline
	parts, ok := leader.r.Cut(1 << 20)
	require.True(t, ok)
	require.Equal(t, 1, countDeltas(t, parts[0]))
	set(deadline + second) // and after it the clock is read
	after := leader.r.Now()
	require.Greater(t, after, deadline)

	restored := newNode(t, engine.Config{})
	require.NoError(t, restored.r.Restore(bytes.NewReader(snap.Bytes()), after))
	restored.reap(restored.e.Passed())
	require.NoError(t, restored.r.Apply(parts, after))
	require.Equal(t, leader.table(start), restored.table(start))

	// Other nodes may have forgotten it; a new leader cannot know.
	other := newNode(t, engine.Config{})
	require.NoError(t, other.r.Restore(bytes.NewReader(snap.Bytes()), after))
	other.r.Lead(after)
	logSet(t, other.s, 1000, 1001)
	deltas, _ := send(t, other)
	require.Zero(t, deltas)
}

// Large states of every kind can travel as deltas: keys of a kind are changed, and all
// do.
func TestDeltasOfEveryKind(t *testing.T) {
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.r.Lead(start)
	hit := func(kind algo.Algorithm, i int) {
		key := fmt.Append(nil, kind)
		// Later than the clock of the key's shard, which an earlier cut or log may have
		// set. Otherwise all hits of a log would be at that time.
		now := start + (30+int64(kind))*second + int64(i)
		member := fmt.Appendf(nil, "a member with the number %d", i)
		switch kind {
		case algo.Log:
			decide(t, leader.s, now, string(key), perMinute(algo.Log, 900), 1, algo.Options{})
			return
		case algo.PolicyLog:
			check(t, leader.s, now, of(t, leader.s, string(key), perMinute(algo.Log, 900)))
			return
		case algo.PolicySlots:
			takes(t, leader.s, start, string(member), of(t, leader.s, string(key), concurrent(900)))
			return
		case algo.Slots:
			_, _, err := leader.s.Acquire(start, key, 900, minute, member, 1)
			require.NoError(t, err)
			return
		}
		v, err := leader.s.Open(start, key, kind)
		require.NoError(t, err)
		defer v.Close()
		switch kind {
		case algo.Hash:
			h := packed.NewHash(v)
			_, err = h.Set(member, member)
		case algo.Set:
			s := packed.NewSet(v)
			_, err = s.Add(member)
		case algo.SortedSet:
			z := packed.NewSortedSet(v)
			_, err = z.Put(member, float64(i))
		case algo.List:
			l := packed.NewList(v)
			err = l.PushFront([][]byte{member})
		case algo.Counter:
			n := v.Len()
			var b []byte
			b, err = v.Splice(n, 0, len(member))
			copy(b[n:], member)
		}
		require.NoError(t, err)
	}
	for _, kind := range []algo.Algorithm{
		algo.Log, algo.Slots, algo.Counter, algo.Hash, algo.Set, algo.SortedSet, algo.List, algo.PolicyLog, algo.PolicySlots,
	} {
		for i := range 600 {
			hit(kind, i)
		}
		_, whole := send(t, leader, follower)
		hit(kind, 600)
		deltas, size := send(t, leader, follower)
		require.Equal(t, 1, deltas, kind)
		most := 160
		if kind == algo.PolicySlots {
			most += 120 // the record of the hold
		}
		require.Less(t, size, most, "%s of %d bytes", kind, whole)
	}
}
