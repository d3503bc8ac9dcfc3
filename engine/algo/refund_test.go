package algo_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

// marked is a key whose charges may be given back, stored as a record is: the words of
// its state and its mark, and a deadline.
type marked struct {
	rule     algo.Rule
	record   []byte
	deadline int64
}

func newMarked(t *testing.T, l algo.Limit) *marked {
	require.NoError(t, l.Validate())
	return &marked{rule: algo.Compile(l)}
}

func (k *marked) state() (st algo.State) {
	if len(k.record) == 0 {
		return st
	}
	st.Deadline, st.First = k.deadline, binary.LittleEndian.Uint64(k.record)
	if len(k.record) > 8 {
		st.Second = binary.LittleEndian.Uint64(k.record[8:])
	}
	return st
}

// reserve charges a call whose charge may be given back.
func (k *marked) reserve(t *testing.T, now, cost int64) algo.Receipt {
	was := k.state()
	in := algo.Input{State: was, Now: now, Cost: cost}
	if k.rule.HasList {
		in.List = k.record
	}
	var d algo.Decision
	next, words, write, err := k.rule.Decide(&in, &d)
	require.NoError(t, err)
	require.True(t, write && d.OK)
	m := algo.Mark{Generation: 7}
	if len(k.record) > 0 {
		m = k.rule.Mark(k.record)
	}
	if m.Held > 0 {
		m.Note(k.record, was, now)
	}
	r := k.rule.Receipt(&m, was, next, now, cost, d.Allowed)
	record := make([]byte, 8*(words+m.Words(&k.rule)))
	copy(record, k.record)
	binary.LittleEndian.PutUint64(record, next.First)
	if words == 2 {
		binary.LittleEndian.PutUint64(record[8:], next.Second)
	}
	m.PutCharge(&k.rule, record, true)
	k.record, k.deadline = record, next.Deadline
	return r
}

// settle gives back the difference between a call's cost and its real cost.
func (k *marked) settle(t *testing.T, now int64, r algo.Receipt, cost, settled int64) {
	m := k.rule.Mark(k.record)
	require.Equal(t, r.Generation, m.Generation)
	f := k.rule.Refund(&r, k.state(), k.record, now, k.rule.Excess(&r, cost, settled))
	if !f.Write {
		return
	}
	deadline, left := k.rule.Give(&f, &m, k.record)
	if !left {
		k.record = nil
	}
	k.deadline = deadline
}

func (k *marked) remaining(t *testing.T, now int64) int64 {
	var d algo.Decision
	_, _, _, err := k.rule.Decide(&algo.Input{State: k.state(), Now: now}, &d)
	require.NoError(t, err)
	return d.Remaining
}

// Units that have refilled since a charge are not given back a second time.
func TestABucketGivesBackWhatHasNotRefilled(t *testing.T) {
	ten := algo.Limit{Limit: 10, Period: 10 * sec}
	k := newMarked(t, ten)
	first := k.reserve(t, someDay, 10)
	require.Zero(t, k.remaining(t, someDay))
	second := k.reserve(t, someDay+6*sec, 1) // 6 have refilled
	require.EqualValues(t, 5, k.remaining(t, someDay+6*sec))
	k.settle(t, someDay+6*sec, first, 10, 0)
	require.EqualValues(t, 9, k.remaining(t, someDay+6*sec), "as if only the second had been made")
	k.settle(t, someDay+6*sec, second, 1, 0)
	require.EqualValues(t, 10, k.remaining(t, someDay+6*sec))
	require.Nil(t, k.record, "a full bucket is a missing key")

	// Settled at once, all of it is there.
	k = newMarked(t, ten)
	first = k.reserve(t, someDay, 8)
	k.reserve(t, someDay, 1)
	k.settle(t, someDay, first, 8, 3)
	require.EqualValues(t, 6, k.remaining(t, someDay))
}

// A window gives back what was charged in it, while that counts.
func TestAWindowGivesBackToTheWindowOfTheCharge(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Fixed, algo.Sliding} {
		k := newMarked(t, algo.Limit{Algorithm: a, Limit: 10, Period: 10 * sec})
		old := k.reserve(t, midnight, 6)
		k.settle(t, midnight+sec, old, 6, 4)
		require.EqualValues(t, 6, k.remaining(t, midnight+sec), a)
		k.reserve(t, midnight+10*sec, 1)
		before := k.remaining(t, midnight+10*sec)
		k.settle(t, midnight+10*sec, old, 4, 0)
		want := before
		if a == algo.Sliding { // the window before still weighs
			want += 4
		}
		require.Equal(t, want, k.remaining(t, midnight+10*sec), a)
	}
}

// A forced charge is bounded by what the state can hold.
func TestForcible(t *testing.T) {
	for _, l := range []algo.Limit{
		{Limit: 10, Period: sec}, {Algorithm: algo.Fixed, Limit: 10, Period: sec}, {Algorithm: algo.Sliding, Limit: 10, Period: sec},
	} {
		r := algo.Compile(l)
		n := r.Forcible(algo.State{}, nil, someDay, math.MaxInt64)
		require.Positive(t, n)
		in := algo.Input{Now: someDay, Cost: n, Options: &algo.Options{Force: true}}
		st, _, write, err := r.Decide(&in, new(algo.Decision))
		require.NoError(t, err)
		require.True(t, write)
		require.Equal(t, n-10, r.Over(st, nil, someDay), l)
		in.State, in.Cost = st, n
		_, _, _, err = r.Decide(&in, new(algo.Decision))
		require.ErrorIs(t, err, algo.ErrOverflow, l)
	}
}

// The denial stands before a pass, and the longer wait before a shorter one.
func TestBindsMoreThan(t *testing.T) {
	order := []algo.Decision{
		{RetryAfter: algo.Never}, {RetryAfter: 2}, {RetryAfter: 1},
		{OK: true, Remaining: 0}, {OK: true, Remaining: 5},
	}
	for i := range order {
		for j := range order {
			require.Equal(t, i < j, order[i].BindsMoreThan(&order[j]), "%d before %d", i, j)
		}
	}
}

// Slots of policies are asked for and never taken by a decision.
func TestSlotsAreAskedFor(t *testing.T) {
	r := algo.Compile(algo.Limit{Algorithm: algo.PolicySlots, Limit: 3, Period: 10 * sec})
	b := make(algo.Holders, 8*algo.MaxHoldersWords)
	b.Acquire(someDay, someDay+5*sec, algo.HolderID{1}, 2)
	ask := func(cost int64) (d algo.Decision) {
		_, words, write, err := r.Decide(&algo.Input{List: b, Now: someDay, Cost: cost}, &d)
		require.NoError(t, err)
		require.False(t, write)
		require.Zero(t, words)
		return d
	}
	require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 3, ResetAfter: 10 * sec}, ask(1))
	require.Equal(t, algo.Decision{Limit: 3, Remaining: 1, RetryAfter: 5 * sec, ResetAfter: 5 * sec}, ask(2))
	require.Equal(t, algo.Never, ask(4).RetryAfter)
	require.Equal(t, algo.Decision{OK: true, Limit: 3, Remaining: 1, ResetAfter: 5 * sec}, ask(0))
}

// No kind without limits decides anything, and a limit of 0 denies all for ever.
func TestWhatDecidesNothing(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Counter, algo.HoldRecord, algo.List} {
		r := algo.Compile(algo.Limit{Algorithm: a})
		_, _, _, err := r.Decide(&algo.Input{Now: someDay, Cost: 1}, new(algo.Decision))
		require.ErrorIs(t, err, algo.ErrUndecided, a)
	}
	for _, a := range []algo.Algorithm{algo.Token, algo.Fixed, algo.Log, algo.PolicySlots, algo.PolicyCalendar} {
		r := algo.Compile(algo.Limit{Algorithm: a, Period: sec})
		var d algo.Decision
		_, _, write, err := r.Decide(&algo.Input{Now: someDay, Cost: 1, Options: &algo.Options{Force: true}}, &d)
		require.NoError(t, err)
		require.False(t, write)
		require.Equal(t, algo.Decision{RetryAfter: algo.Never}, d, a)
		n, err := r.Count(&algo.Input{Now: someDay, Cost: 1, Options: &algo.Options{}}, &d)
		require.NoError(t, err)
		require.Equal(t, algo.Count{}, n, a)
	}
}
