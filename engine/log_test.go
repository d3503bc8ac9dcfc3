package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// logKey is a key with a log limit, whose record is resized as a shard does
// it: the leading words are kept.
type logKey struct {
	rule     rule
	buf      []byte
	deadline int64
	max      int
}

func newLogKey(t require.TestingT, limit, period int64, maxEntries int) *logKey {
	l := Limit{Algorithm: Log, Limit: limit, Period: period}
	require.NoError(t, l.Validate())
	return &logKey{rule: compile(l), max: maxEntries}
}

func (k *logKey) check(buf []byte, now, cost int64, o *Options) (d Decision, write bool, err error) {
	write, err = k.rule.checkLog(buf, now, cost, o, k.max, &d)
	return d, write, err
}

func (k *logKey) call(t require.TestingT, now, cost int64, o Options) (Decision, error) {
	before := append([]byte(nil), k.buf...)
	d, write, err := k.check(k.buf, now, cost, &o)
	require.Equal(t, before, append([]byte(nil), k.buf...), "a check changes nothing")
	if !write {
		return d, err
	}
	require.NoError(t, err)
	words, deadline := k.rule.logNeed(k.buf, now, d.Allowed, k.max)
	if words == 0 {
		k.buf = nil
		return d, nil
	}
	if len(k.buf) != 8*words {
		k.rule.trimLog(k.buf, now)
		resized := make([]byte, 8*words)
		copy(resized, k.buf)
		k.buf = resized
	}
	k.rule.logApply(k.buf, now, d.Allowed)
	k.deadline = deadline
	require.Equal(t, d.ResetAfter, deadline-now)
	return d, nil
}

// pairs returns what the ring holds.
func (k *logKey) pairs() (hits history) {
	b := logRing(k.buf)
	head, count := b.span()
	for i := range count {
		at := b.slot(head, i)
		hits = append(hits, hit{b.word(at), b.word(at + 1)})
	}
	return hits
}

// requireSound checks that the pairs are in order and add up.
func (k *logKey) requireSound(t require.TestingT) {
	hits := k.pairs()
	total := int64(0)
	sound := len(hits) <= logRing(k.buf).pairs()
	for i, x := range hits {
		total += x.cost
		sound = sound && x.cost > 0 && (i == 0 || x.at > hits[i-1].at)
	}
	require.True(t, sound, "%v", hits)
	require.Equal(t, total, logRing(k.buf).total())
}

func TestLogIsExact(t *testing.T) {
	k := newLogKey(t, 3, 10*sec, 1000)
	for i := range int64(3) {
		d, err := k.call(t, someDay+i*sec, 1, Options{})
		require.NoError(t, err)
		require.Equal(t, Decision{OK: true, Allowed: 1, Limit: 3, Remaining: 2 - i, ResetAfter: 10 * sec}, d)
	}
	d, _ := k.call(t, someDay+5*sec, 2, Options{})
	require.Equal(t, Decision{Limit: 3, RetryAfter: 6 * sec, ResetAfter: 7 * sec}, d, "when the second has left")
	d, _ = k.call(t, someDay+5*sec, 4, Options{})
	require.Equal(t, Never, d.RetryAfter)
	d, _ = k.call(t, someDay+10*sec-1, 1, Options{})
	require.EqualValues(t, 1, d.RetryAfter)
	d, _ = k.call(t, someDay+10*sec, 1, Options{})
	require.True(t, d.OK)
}

func TestLogRefundsTheNewest(t *testing.T) {
	k := newLogKey(t, 10, 10*sec, 1000)
	for i := range int64(3) {
		_, err := k.call(t, someDay+i*sec, 2, Options{})
		require.NoError(t, err)
	}
	d, err := k.call(t, someDay+3*sec, -3, Options{})
	require.NoError(t, err)
	require.Equal(t, Decision{OK: true, Allowed: -3, Limit: 10, Remaining: 7, ResetAfter: 8 * sec}, d)
	require.Equal(t, history{{someDay, 2}, {someDay + sec, 1}}, k.pairs())
	d, err = k.call(t, someDay+3*sec, math.MinInt64, Options{})
	require.NoError(t, err)
	require.EqualValues(t, 10, d.Remaining)
	require.Empty(t, k.buf, "an empty log is a missing key")
}

func TestLogIsBounded(t *testing.T) {
	k := newLogKey(t, 100, 10*sec, 8)
	for i := range int64(8) {
		_, err := k.call(t, someDay+i, 1, Options{})
		require.NoError(t, err)
	}
	require.Len(t, k.buf, 8*(logHeader+2*8))
	_, err := k.call(t, someDay+7, 5, Options{})
	require.NoError(t, err, "calls of the same ns share a pair")
	held := k.pairs()
	_, err = k.call(t, someDay+8, 1, Options{})
	require.ErrorIs(t, err, ErrLogFull)
	require.Equal(t, held, k.pairs())
	_, err = k.call(t, someDay+10*sec, 1, Options{})
	require.NoError(t, err, "room again when the oldest has left")
	_, err = k.call(t, someDay+30*sec, 1, Options{})
	require.NoError(t, err)
	require.Len(t, k.buf, 8*(logHeader+2*logMinPairs), "an idle log gives its memory back")

	_, err = k.call(t, someDay+30*sec, math.MaxInt64, Options{Force: true})
	require.ErrorIs(t, err, ErrOverflow)
}

// What is charged under a clock that was set back counts with the newest pair:
// the pairs stay in order, and none leaves early.
func TestLogUnderAClockSetBack(t *testing.T) {
	k := newLogKey(t, 3, 10*sec, 1000)
	for _, now := range []int64{someDay, someDay - 5*sec, someDay - 2*sec} {
		_, err := k.call(t, now, 1, Options{})
		require.NoError(t, err)
		k.requireSound(t)
	}
	require.Equal(t, history{{someDay, 3}}, k.pairs())
	d, err := k.call(t, someDay+9*sec, 1, Options{})
	require.NoError(t, err)
	require.Equal(t, sec, d.RetryAfter)
}

func TestLogAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, period := wide(t, "limit", 1, 1000), wide(t, "period", 1, maxSpan)
		k := newLogKey(t, limit, period, 1000)
		m := modelWindow{l: k.rule.limit}
		now := int64(someDay)
		// Several calls a period, so that rings wrap, grow and shrink.
		pace := period / rapid.Int64Range(1, 40).Draw(t, "pace")
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			now = min(now+wide(t, "step", 0, pace), maxInstant)
			cost := wide(t, "cost", -limit, limit)
			if rapid.Bool().Draw(t, "one") {
				cost = 1
			}
			o := anyOptions(t, period)
			before := append([]byte(nil), k.buf...)
			got, err := k.call(t, now, cost, o)
			require.NoError(t, err)
			want := m.decide(now, cost, o)
			require.Equal(t, got.OK, got.RetryAfter == 0)
			if got.RetryAfter == Never {
				require.Greater(t, cost, limit+o.Debt)
			} else if !got.OK && now+got.RetryAfter <= maxInstant {
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
		now, hits := int64(someDay), history{}
		for range 100 {
			now += rapid.Int64Range(0, 300).Draw(t, "step")
			d, err := k.call(t, now, rapid.Int64Range(1, 60).Draw(t, "cost"), Options{AtMost: true})
			require.NoError(t, err)
			hits = append(hits, hit{now, d.Allowed})
			require.LessOrEqual(t, hits.between(now-999, now+1), k.rule.burst)
		}
	})
}

func BenchmarkLog(b *testing.B) {
	k := newLogKey(b, 1000, 60*sec, 1000)
	now, o := int64(someDay), Options{}
	for b.Loop() {
		now += 60 * ms
		d, _, err := k.check(k.buf, now, 1, &o)
		if err != nil || !d.OK {
			b.Fatal(d, err)
		}
		if words, _ := k.rule.logNeed(k.buf, now, 1, k.max); 8*words != len(k.buf) {
			k.rule.trimLog(k.buf, now)
			resized := make([]byte, 8*words)
			copy(resized, k.buf)
			k.buf = resized
		}
		k.rule.logApply(k.buf, now, 1)
	}
}
