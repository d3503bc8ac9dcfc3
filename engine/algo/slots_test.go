package algo_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// slotsKey is a key with a concurrency limit, whose record is resized as a
// shard does it: the leading words are kept.
type slotsKey struct {
	rule     algo.Rule
	buf      algo.Holders
	deadline int64
}

func newSlotsKey(t require.TestingT, limit int64) *slotsKey {
	l := algo.Limit{Algorithm: algo.Slots, Limit: limit}
	require.NoError(t, l.Validate())
	return &slotsKey{rule: algo.Compile(l)}
}

func (k *slotsKey) acquire(t require.TestingT, now, ttl int64, id string, cost int64) algo.Decision {
	hid, err := algo.ParseHolderID([]byte(id))
	require.NoError(t, err)
	d, err := k.rule.Acquire(k.buf, now, ttl, hid, cost)
	require.NoError(t, err)
	if !d.OK {
		return d
	}
	words, deadline := k.buf.Need(now, now+ttl, hid)
	if 8*words != len(k.buf) {
		k.rule.Compact(k.buf, now)
		resized := make([]byte, 8*words)
		copy(resized, k.buf)
		k.buf = resized
	}
	k.buf.Acquire(now, now+ttl, hid, cost)
	k.deadline = k.buf.Deadline()
	require.Equal(t, deadline, k.deadline)
	require.Equal(t, d.ResetAfter, deadline-now)
	return d
}

func (k *slotsKey) release(now int64, id string) bool {
	hid, _ := algo.ParseHolderID([]byte(id))
	held := k.buf.Holds(now, hid)
	if held {
		k.buf.Release(now, hid)
	}
	return held
}

func (k *slotsKey) extend(now, ttl int64, id string) bool {
	hid, _ := algo.ParseHolderID([]byte(id))
	held := k.buf.Holds(now, hid)
	if held {
		k.buf.Extend(now, now+ttl, hid)
	}
	return held
}

func TestSlots(t *testing.T) {
	k := newSlotsKey(t, 3)
	require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 3, Remaining: 2, ResetAfter: 5 * sec},
		k.acquire(t, someDay, 5*sec, "a", 1))
	require.Equal(t, algo.Decision{OK: true, Allowed: 2, Limit: 3, ResetAfter: 9 * sec},
		k.acquire(t, someDay, 9*sec, "b", 2))
	require.Equal(t, algo.Decision{Limit: 3, RetryAfter: 5 * sec, ResetAfter: 9 * sec},
		k.acquire(t, someDay, sec, "c", 1), "when a's holder must have crashed")
	require.Equal(t, 9*sec, k.acquire(t, someDay, sec, "c", 2).RetryAfter)
	require.Equal(t, algo.Never, k.acquire(t, someDay, sec, "c", 4).RetryAfter)

	d := k.acquire(t, someDay+sec, 10*sec, "a", 1)
	require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 3, ResetAfter: 10 * sec}, d, "a renewal counts once")
	require.False(t, k.acquire(t, someDay+sec, 10*sec, "a", 2).OK, "a renewal that needs more")
	require.True(t, k.buf.Holds(someDay+sec, mustHolder("a")), "keeps its slots when denied")

	require.True(t, k.release(someDay+2*sec, "b"))
	require.False(t, k.release(someDay+2*sec, "b"))
	require.True(t, k.acquire(t, someDay+2*sec, 10*sec, "a", 3).OK)
	require.True(t, k.extend(someDay+3*sec, sec, "a"))
	require.False(t, k.extend(someDay+4*sec, sec, "a"), "a slot is free at its deadline")
	require.True(t, k.acquire(t, someDay+4*sec, sec, "c", 3).OK, "and a crashed holder's slot is free")

	require.True(t, k.release(someDay+4*sec, "c"))
	require.Zero(t, k.buf.Deadline(), "nothing held is a missing key")
}

func mustHolder(s string) algo.HolderID {
	id, err := algo.ParseHolderID([]byte(s))
	if err != nil {
		panic(err)
	}
	return id
}

func TestSlotsErrors(t *testing.T) {
	k := newSlotsKey(t, algo.MaxCount)
	for _, ttl := range []int64{0, -1, math.MinInt64, algo.MaxSpan + 1} {
		_, err := k.rule.Acquire(nil, someDay, ttl, algo.HolderID{}, 1)
		require.ErrorIs(t, err, algo.ErrSlotTTL)
	}
	for _, cost := range []int64{0, -1, math.MinInt64} {
		_, err := k.rule.Acquire(nil, someDay, sec, algo.HolderID{}, cost)
		require.ErrorIs(t, err, algo.ErrSlotCost)
	}
	d, err := k.rule.Acquire(nil, someDay, sec, algo.HolderID{}, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, algo.Never, d.RetryAfter)

	k.buf = make([]byte, 8*algo.MaxHoldersWords)
	for i := range 4096 {
		k.buf.Acquire(someDay, someDay+sec, algo.HolderID{byte(i), byte(i >> 8), 1}, 1)
	}
	_, err = k.rule.Acquire(k.buf, someDay, sec, algo.HolderID{}, 1)
	require.ErrorIs(t, err, algo.ErrSlotsFull)
	_, err = k.rule.Acquire(k.buf, someDay, sec, algo.HolderID{0, 0, 1}, 1)
	require.NoError(t, err, "a renewal needs no room")
	_, err = k.rule.Acquire(k.buf, someDay+sec, sec, algo.HolderID{}, 1)
	require.NoError(t, err)
	words, _ := k.buf.Need(someDay+sec, someDay+2*sec, algo.HolderID{})
	require.Equal(t, 2+4, words)
}

func TestHolderID(t *testing.T) {
	const generated = "00112233445566778899aabbccddeeff"
	require.Equal(t, generated, mustHolder(generated).String())
	// SHA-256 of "abc", first half.
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223", mustHolder("abc").String())
	require.NotEqual(t, mustHolder(generated), mustHolder("00112233445566778899AABBCCDDEEFF"))
	require.NotEqual(t, mustHolder(generated), mustHolder("00112233445566778899aabbccddeefg"))
	_, err := algo.ParseHolderID(nil)
	require.ErrorIs(t, err, algo.ErrHolderID)
	_, err = algo.ParseHolderID(make([]byte, 129))
	require.ErrorIs(t, err, algo.ErrHolderID)
}

// A plain map of holders is the model.
func TestSlotsAgainstModel(t *testing.T) {
	type holder struct{ deadline, cost int64 }
	rapid.Check(t, func(t *rapid.T) {
		k := newSlotsKey(t, algotest.Wide(t, "limit", 1, 50))
		m := map[string]holder{}
		now := int64(someDay)
		used := func(now int64, but string) (n int64) {
			for id, x := range m {
				if x.deadline > now && id != but {
					n += x.cost
				}
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now += rapid.Int64Range(0, 30).Draw(t, "step")
			ttl := rapid.Int64Range(1, 200).Draw(t, "ttl")
			id := rapid.StringMatching("[a-t]").Draw(t, "id")
			held := m[id].deadline > now
			switch rapid.IntRange(0, 4).Draw(t, "call") {
			case 0:
				require.Equal(t, held, k.release(now, id))
				delete(m, id)
			case 1:
				require.Equal(t, held, k.extend(now, ttl, id))
				if held {
					m[id] = holder{now + ttl, m[id].cost}
				}
			default:
				cost := rapid.Int64Range(1, 20).Draw(t, "cost")
				d := k.acquire(t, now, ttl, id, cost)
				require.Equal(t, used(now, id)+cost <= k.rule.Burst, d.OK)
				if d.OK {
					m[id] = holder{now + ttl, cost}
				} else if d.RetryAfter == algo.Never {
					require.Greater(t, cost, k.rule.Burst)
				} else {
					require.LessOrEqual(t, used(now+d.RetryAfter, id)+cost, k.rule.Burst)
					require.Greater(t, used(now+d.RetryAfter-1, id)+cost, k.rule.Burst)
				}
				require.Equal(t, k.rule.Burst-used(now, ""), d.Remaining)
				last := now
				for _, x := range m {
					last = max(last, x.deadline)
				}
				require.Equal(t, last-now, d.ResetAfter)
			}
		}
	})
}
