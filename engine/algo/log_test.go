package algo_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// logKey is a key with a log limit, whose record is resized as a shard does
// it: the leading words are kept.
type logKey struct {
	rule     algo.Rule
	buf      []byte
	deadline int64
	max      int
}

// listSize is the needed room of a list, and its deadline.
type listSize struct {
	words    int
	deadline int64
}

func newLogKey(t require.TestingT, limit, period int64, maxEntries int) *logKey {
	l := algo.Limit{Algorithm: algo.Log, Limit: limit, Period: period}
	require.NoError(t, l.Validate())
	return &logKey{rule: algo.Compile(l), max: maxEntries}
}

func (k *logKey) check(buf []byte, now, cost int64, o *algo.Options) (d algo.Decision, write bool, err error) {
	_, d, write, err = k.decide(buf, now, cost, o)
	return d, write, err
}

func (k *logKey) decide(buf []byte, now, cost int64, o *algo.Options) (room listSize, d algo.Decision, write bool, err error) {
	in := algo.Input{List: buf, Now: now, Cost: cost, Options: o, MaxEntries: k.max}
	next, words, write, err := k.rule.Decide(&in, &d)
	return listSize{words, next.Deadline}, d, write, err
}

func (k *logKey) call(t require.TestingT, now, cost int64, o algo.Options) (algo.Decision, error) {
	before := append([]byte(nil), k.buf...)
	room, d, write, err := k.decide(k.buf, now, cost, &o)
	require.Equal(t, before, append([]byte(nil), k.buf...), "a check changes nothing")
	if !write {
		return d, err
	}
	require.NoError(t, err)
	if room.words == 0 {
		k.buf = nil
		return d, nil
	}
	k.resize(room.words, now)
	k.rule.Apply(k.buf, now, d.Allowed)
	k.deadline = room.deadline
	require.Equal(t, d.ResetAfter, k.deadline-now)
	return d, nil
}

// pairs returns what the ring holds.
func (k *logKey) pairs() (hits algotest.History) {
	if len(k.buf) == 0 {
		return nil
	}
	room := k.room()
	head, count := int(uint32(k.word(0))), int(uint32(k.word(0)>>32))
	for i := range count {
		at := 2 + 2*((head+i)%room)
		hits = append(hits, algotest.Hit{At: k.word(at), Cost: k.word(at + 1)})
	}
	return hits
}

// room is how many pairs the ring has room for.
func (k *logKey) room() int { return len(k.buf)/16 - 1 }

func (k *logKey) word(i int) int64 { return int64(binary.LittleEndian.Uint64(k.buf[8*i:])) }

func (k *logKey) resize(words int, now int64) {
	if len(k.buf) == 8*words {
		return
	}
	k.rule.Compact(k.buf, now)
	resized := make([]byte, 8*words)
	copy(resized, k.buf)
	k.buf = resized
}

// requireSound checks that the pairs are in order and add up.
func (k *logKey) requireSound(t require.TestingT) {
	hits := k.pairs()
	total := int64(0)
	sound := len(hits) == 0 || len(hits) <= k.room()
	for i, x := range hits {
		total += x.Cost
		sound = sound && x.Cost > 0 && (i == 0 || x.At > hits[i-1].At)
	}
	require.True(t, sound, "%v", hits)
	if len(k.buf) > 0 {
		require.Equal(t, total, k.word(1))
	}
}

func TestLogIsExact(t *testing.T) {
	k := newLogKey(t, 3, 10*sec, 1000)
	for i := range int64(3) {
		d, err := k.call(t, someDay+i*sec, 1, algo.Options{})
		require.NoError(t, err)
		require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 3, Remaining: 2 - i, ResetAfter: 10 * sec}, d)
	}
	d, _ := k.call(t, someDay+5*sec, 2, algo.Options{})
	require.Equal(t, algo.Decision{Limit: 3, RetryAfter: 6 * sec, ResetAfter: 7 * sec}, d, "when the second has left")
	d, _ = k.call(t, someDay+5*sec, 4, algo.Options{})
	require.Equal(t, algo.Never, d.RetryAfter)
	d, _ = k.call(t, someDay+10*sec-1, 1, algo.Options{})
	require.EqualValues(t, 1, d.RetryAfter)
	d, _ = k.call(t, someDay+10*sec, 1, algo.Options{})
	require.True(t, d.OK)
}

func TestLogRefundsTheNewest(t *testing.T) {
	k := newLogKey(t, 10, 10*sec, 1000)
	for i := range int64(3) {
		_, err := k.call(t, someDay+i*sec, 2, algo.Options{})
		require.NoError(t, err)
	}
	d, err := k.call(t, someDay+3*sec, -3, algo.Options{})
	require.NoError(t, err)
	require.Equal(t, algo.Decision{OK: true, Allowed: -3, Limit: 10, Remaining: 7, ResetAfter: 8 * sec}, d)
	require.Equal(t, algotest.History{{At: someDay, Cost: 2}, {At: someDay + sec, Cost: 1}}, k.pairs())
	d, err = k.call(t, someDay+3*sec, math.MinInt64, algo.Options{})
	require.NoError(t, err)
	require.EqualValues(t, 10, d.Remaining)
	require.Empty(t, k.buf, "an empty log is a missing key")
}

func TestLogIsBounded(t *testing.T) {
	k := newLogKey(t, 100, 10*sec, 8)
	for i := range int64(8) {
		_, err := k.call(t, someDay+i, 1, algo.Options{})
		require.NoError(t, err)
	}
	require.Equal(t, 8, k.room())
	_, err := k.call(t, someDay+7, 5, algo.Options{})
	require.NoError(t, err, "calls of the same ns share a pair")
	held := k.pairs()
	_, err = k.call(t, someDay+8, 1, algo.Options{})
	require.ErrorIs(t, err, algo.ErrLogFull)
	require.Equal(t, held, k.pairs())
	_, err = k.call(t, someDay+10*sec, 1, algo.Options{})
	require.NoError(t, err, "room again when the oldest has left")
	_, err = k.call(t, someDay+30*sec, 1, algo.Options{})
	require.NoError(t, err)
	require.Equal(t, 4, k.room(), "an idle log gives its memory back")

	_, err = k.call(t, someDay+30*sec, math.MaxInt64, algo.Options{Force: true})
	require.ErrorIs(t, err, algo.ErrOverflow)
}

// Charges under a clock that was set back count with the newest pair: the pairs stay in
// order, and none leaves early.
func TestLogUnderAClockSetBack(t *testing.T) {
	k := newLogKey(t, 3, 10*sec, 1000)
	for _, now := range []int64{someDay, someDay - 5*sec, someDay - 2*sec} {
		_, err := k.call(t, now, 1, algo.Options{})
		require.NoError(t, err)
		k.requireSound(t)
	}
	require.Equal(t, algotest.History{{At: someDay, Cost: 3}}, k.pairs())
	d, err := k.call(t, someDay+9*sec, 1, algo.Options{})
	require.NoError(t, err)
	require.Equal(t, sec, d.RetryAfter)
}

func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, period := algotest.Wide(t, "limit", 1, 1000), algotest.Wide(t, "period", 1, algo.MaxSpan)
		k := newLogKey(t, limit, period, 1000)
		m := algotest.Window{Limit: k.rule.Limit}
		now := int64(someDay)
		// Several calls a period, so that rings wrap, grow and shrink.
		pace := period / rapid.Int64Range(1, 40).Draw(t, "pace")
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now = min(now+algotest.Wide(t, "step", 0, pace), algotest.MaxInstant)
			cost := algotest.Wide(t, "cost", -limit, limit)
			if rapid.Bool().Draw(t, "one") {
				cost = 1
			}
			o := algotest.AnyOptions(t, period)
			before := append([]byte(nil), k.buf...)
			got, err := k.call(t, now, cost, o)
			require.NoError(t, err)
			want := m.Decide(now, cost, o)
			require.Equal(t, got.OK, got.RetryAfter == 0)
			if got.RetryAfter == algo.Never {
				require.Greater(t, cost, limit+o.Debt)
			} else if !got.OK && now+got.RetryAfter <= algotest.MaxInstant {
				later, _, _ := k.check(before, now+got.RetryAfter, cost, &o)
				require.True(t, later.OK, "after the wait")
				early, _, _ := k.check(before, now+got.RetryAfter-1, cost, &o)
				require.False(t, early.OK, "1 ns early")
			}
			got.RetryAfter = 0
			require.Equal(t, want, got)
			k.requireSound(t)
		}
	})
}

// No attack gets more than the limit into any period.
func TestLogEdgeAttack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := newLogKey(t, rapid.Int64Range(1, 50).Draw(t, "limit"), 1000, 1000)
		now, hits := int64(someDay), algotest.History{}
		for range 100 {
			now += rapid.Int64Range(0, 300).Draw(t, "step")
			d, err := k.call(t, now, rapid.Int64Range(1, 60).Draw(t, "cost"), algo.Options{AtMost: true})
			require.NoError(t, err)
			hits = append(hits, algotest.Hit{At: now, Cost: d.Allowed})
			require.LessOrEqual(t, hits.Between(now-999, now+1), k.rule.Burst)
		}
	})
}

func BenchmarkLog(b *testing.B) {
	k := newLogKey(b, 1000, 60*sec, 1000)
	now, o := int64(someDay), algo.Options{}
	for b.Loop() {
		now += 60 * ms
		room, d, _, err := k.decide(k.buf, now, 1, &o)
		if err != nil || !d.OK {
			b.Fatal(d, err)
		}
		k.resize(room.words, now)
		k.rule.Apply(k.buf, now, 1)
	}
}
