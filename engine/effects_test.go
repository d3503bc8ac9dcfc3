package engine

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// readEffect is an effect as its reader would apply it.
type readEffect struct {
	key      string
	db       uint8
	present  bool
	limit    algo.Limit
	deadline int64
	state    string
}

// readOut keeps what is no key's state in a payload.
type readOut struct {
	dict    []algo.Limit
	flushes int
}

func (o *readOut) addLimit(l algo.Limit)       { o.dict = append(o.dict, l) }
func (o *readOut) setSystem(systemKey, []byte) {}
func (o *readOut) flush()                      { o.flushes++ }
func (o *readOut) included(int64)              {}

// readEffects reads one payload.
func readEffects(t *testing.T, payload []byte) (list []readEffect) {
	list, _ = readPayload(t, payload)
	return list
}

// readPayload reads one payload, and how often it flushes.
func readPayload(t *testing.T, payload []byte) (list []readEffect, flushes int) {
	var r effects
	var out readOut
	require.NoError(t, r.open(payload))
	for r.more() {
		var ef effect
		ok, err := r.next(&ef, &out)
		require.NoError(t, err)
		if !ok {
			continue
		}
		one := readEffect{key: string(ef.image.Key), db: ef.image.Space}
		if ef.limit >= 0 {
			one.present, one.limit = true, out.dict[ef.limit]
			one.deadline, one.state = ef.image.Deadline, string(ef.image.State)
		}
		list = append(list, one)
		if len(list)%7 == 0 {
			r.recycle()
		}
	}
	return list, out.flushes
}

// randomKey has long and short, shared and unshared parts.
func randomKey(rnd *rand.Rand) []byte {
	key := bytes.Repeat([]byte("prefix:"), rnd.IntN(5))
	if rnd.IntN(20) == 0 {
		key = bytes.Repeat([]byte("x"), rnd.IntN(shard.MaxKeyLen-100))
	}
	for range rnd.IntN(40) {
		key = append(key, byte('a'+rnd.IntN(3)))
	}
	return key
}

func TestEffectsAreReadAsWritten(t *testing.T) {
	deadlines := []int64{0, 1, start, start + minute, math.MaxInt64, math.MinInt64, -1}
	wordCounts := []int{0, 1, 1, 1, 2, 3, 10, manyWords - 1, manyWords, manyWords + 1, 300}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(1, seed))
		limits := newInterner()
		db := func() uint8 { return uint8(rnd.IntN(algo.Databases)) }
		ids := make([]uint32, 1+rnd.IntN(5))
		for i := range ids {
			l := algo.Limit{DB: db(), Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))], Limit: 1 + int64(i), Period: minute}
			if rnd.IntN(2) == 0 {
				l.DB, l.Algorithm, l.Resets, l.Scalings = 0, l.Algorithm.OfPolicy(), uint16(rnd.Uint32()), uint16(rnd.Uint32())
			}
			it, err := limits.acquire(l)
			require.NoError(t, err)
			ids[i] = it.id
		}
		most := 64 + rnd.IntN(4000)
		enc := newEncoder(limits, firstFormats, most, rnd.IntN(2*most))
		var want, got []readEffect
		for range rnd.IntN(200) {
			key := randomKey(rnd)
			if rnd.IntN(4) == 0 {
				of := db()
				enc.remove(of, key)
				want = append(want, readEffect{key: string(key), db: of})
				continue
			}
			im := shard.Image{Key: key, Meta: ids[rnd.IntN(len(ids))], Deadline: deadlines[rnd.IntN(len(deadlines))] + rnd.Int64N(3)}
			im.State = make([]byte, 8*wordCounts[rnd.IntN(len(wordCounts))])
			for i := range im.State {
				if rnd.IntN(3) == 0 {
					im.State[i] = byte(rnd.Uint32())
				}
			}
			enc.put(im)
			want = append(want, readEffect{string(key), limits.get(im.Meta).Limit.DB, true, limits.get(im.Meta).Limit, im.Deadline, string(im.State)})
		}
		for _, p := range enc.finish() {
			list := readEffects(t, p)
			require.NotEmpty(t, list)
			require.True(t, len(p) <= most || len(list) == 1, "a payload of %d bytes, at most %d", len(p), most)
			got = append(got, list...)
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}

func TestTheLargestEffectFitsAChunk(t *testing.T) {
	limits := newInterner()
	it, err := limits.acquire(perMinute(algo.Log, 5))
	require.NoError(t, err)
	enc := newEncoder(limits, firstFormats, 1<<10, 0)
	im := shard.Image{Key: make([]byte, shard.MaxKeyLen), Meta: it.id, Deadline: math.MinInt64, State: bytes.Repeat([]byte{0xff}, 8*textWords(MaxValueLen))}
	enc.put(im)
	parts := enc.finish()
	require.Len(t, parts, 1)
	require.Less(t, len(parts[0]), snapshotMost)
	require.Equal(t, string(im.State), readEffects(t, parts[0])[0].state)
}

func TestAnEffectIsSmall(t *testing.T) {
	limits := newInterner()
	it, err := limits.acquire(algo.Limit{Limit: 100, Period: 24 * 60 * minute})
	require.NoError(t, err)
	enc := newEncoder(limits, firstFormats, 1<<20, 0)
	rnd := rand.New(rand.NewPCG(2, 2))
	const n = 1000
	for range n {
		enc.put(shard.Image{Key: fmt.Appendf(nil, "key:%012d", rnd.IntN(1_000_000)), Meta: it.id, Deadline: start + rnd.Int64N(24*60*minute), State: make([]byte, 8)})
	}
	require.Less(t, len(enc.finish()[0]), 17*n)
}

// A full log travels in less than half of what its words would take.
func TestALogIsSmall(t *testing.T) {
	n := newNode(t, Config{Shards: 1})
	n.r.Lead(start)
	const entries = 1000
	now := start
	for range entries {
		now += minute / entries
		decide(t, n.s, now, "k", perMinute(algo.Log, entries), 1, algo.Options{})
	}
	parts, ok := n.r.Cut(1 << 20)
	require.True(t, ok)
	require.Len(t, parts, 1)
	require.Less(t, len(parts[0]), 5*entries+300)
	follower := newNode(t, Config{})
	require.NoError(t, follower.r.Apply(parts, now))
	require.Equal(t, n.table(now), follower.table(now))
}

func TestUnreadableEffects(t *testing.T) {
	n := newNode(t, Config{Shards: 1})
	f := func(want string, payload ...byte) {
		t.Helper()
		err := n.r.apply(payload, start)
		require.ErrorIs(t, err, ErrEffects)
		require.ErrorContains(t, err, want)
	}
	f("no version")
	f("version 13, this node knows 1 to 1; upgrade it, or wipe its data if they are of a build from before the first release", 13, recordDelete, 0)
	f("bad deletion", effectsNewest, recordDelete)
	f("bad deletion", effectsNewest, recordDelete, 1<<lenBits, 'k')     // nothing to share
	f("bad state", effectsNewest, recordPut, 0, 0)                      // no put before
	f("bad state", effectsNewest, recordPutOf, 0, 0, 0)                 // no limit
	f("bad limit", effectsNewest, recordLimit, 0, 0, 0)                 // cut short
	f("limit:", effectsNewest, recordLimit, 0, 0, 0, 0, 0, 0)           // none
	f("bad deletion", effectsNewest, recordDelete, longLen, 0xff, 0xff) // length cut short
	f("flush in the middle", effectsNewest, recordDelete, 0, recordFlush)
	f("bad deletion", effectsNewest, recordDelete|5<<kindBits) // of no kind
	f("bad deletion", effectsNewest, recordDeleteIn, 0)        // database 0 is not named
	f("bad deletion", effectsNewest, recordDeleteIn+algo.Spaces<<kindBits, 0)
	f("limit:", effectsNewest, recordLimit|algo.Databases<<kindBits, 0, 0, 0, 2, 2, 0)
	f("limit:", effectsNewest, recordLimit, byte(algo.PolicySlots+1), 0, 0, 2, 2, 0)
	f("bad system record", effectsNewest, recordSystem, byte(systemCharged), 1)
	f("bad system record", effectsNewest, recordSystem, byte(systemCharged), 1, 'n', 3, 'v')
	f("bad system record", effectsNewest, recordSystem, byte(systemCharged), 0, 0xff, 0xff, 0xff, 1)       // too large
	f("bad system record", effectsNewest, recordSystem, byte(systemPolicy)+1, 0, 0)                        // of no kind
	f("bad system record", effectsNewest, recordSystem, byte(systemPolicy), 0, 1)                          // no text
	f("bad limit", effectsNewest, recordLimit, byte(algo.PolicyFixed), 0, 0, 2, 2, 0, 0xff, 0xff, 0xff, 0) // resets
	f("limit:", effectsNewest, recordLimit, byte(algo.PolicyCalendar), 0, 0, 2, 2, 0, 0, 0)                // a period
	f("bad system record", effectsNewest, recordSystem, byte(systemScript), 0, 1)                          // no text
	require.Zero(t, n.e.Len())
}

// What is written has the version that is permitted, in payloads and in
// snapshots.
func TestWritersObeyTheFormatsPermitted(t *testing.T) {
	n := newNode(t, Config{Shards: 1})
	for _, version := range []byte{effectsNewest, effectsNewest + 1} {
		n.r.Permit(Formats{Effects: version})
		n.r.Lead(start)
		decide(t, n.s, start, "k", perMinute(algo.Token, 5), 1, algo.Options{Force: true})
		chargeOnce(t, n.s, "n0", int64(version), nil)
		parts := n.cut()
		require.Equal(t, version, parts[0][0])
		n.l.Commit()
		n.depose()
		var snap bytes.Buffer
		require.NoError(t, n.r.Snapshot().Persist(&snap))
		for i := 0; snap.Bytes()[i] != 0; i += 1 + int(snap.Bytes()[i]) {
			require.Equal(t, version, snap.Bytes()[i+1])
		}
	}
	require.NoError(t, firstFormats.Check())
	require.Error(t, Formats{Effects: effectsNewest + 1}.Check())
	require.Error(t, Formats{}.Check())
}
