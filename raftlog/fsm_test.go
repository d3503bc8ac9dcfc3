package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/raftlog/clock"
	"github.com/headgate-io/headgate/raftlog/member"
)

// testFSM is an fsm without Raft.
func testFSM(node string) (*fsm, *mapMachine, *error) {
	var fatal error
	m := newMapMachine()
	c := &Config{NodeID: node, Ledger: m.ledger, Features: []Formats{firstFormats[0], firstFormats[0], firstFormats[0]}, Logger: slog.New(slog.DiscardHandler)}
	f := newFSM(c, m, func() int64 { return 1000 })
	f.fatal = func(err error) { fatal = err }
	f.observe, f.retune = func() {}, func() {}
	f.arrived = func(uint64) (int64, bool) { return f.now(), true }
	return f, m, &fatal
}

// entryOf is the log entry of one part.
func entryOf(index, logTerm uint64, h header, payload string) *raft.Log {
	return &raft.Log{Index: index, Term: logTerm, Type: raft.LogCommand, Data: encodeEntry(entryOldest, h, []byte(payload))}
}

func persist(t require.TestingT, f *fsm) []byte {
	s, err := f.Snapshot()
	require.NoError(t, err)
	defer s.Release()
	var b bytes.Buffer
	require.NoError(t, s.Persist(discardSink{&b}))
	return b.Bytes()
}

type discardSink struct{ io.Writer }

func (discardSink) Close() error  { return nil }
func (discardSink) ID() string    { return "" }
func (discardSink) Cancel() error { return nil }

// Any log, however torn by changes of leadership, gives the same state on every
// node. It is read from the start, in pieces of any size, or from any snapshot
// on.
func TestSameLogSameState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Leaders a and b take turns. Each proposes batches of up to three parts. The
		// next term cuts some short; some arrive in a later term than they were
		// decided in; some get lost on the way.
		var log []*raft.Log
		want := map[string]string{}
		level := uint32(firstLevel)
		term, index := uint64(1), uint64(0)
		for range rapid.IntRange(1, 6).Draw(t, "terms") {
			term += uint64(rapid.IntRange(1, 2).Draw(t, "step"))
			node := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "leader")
			broken := false
			for batch := range rapid.IntRange(0, 5).Draw(t, "batches") {
				parts := rapid.IntRange(1, 3).Draw(t, "parts")
				h := header{node: node, term: term, batch: uint64(batch + 1), parts: uint64(parts), clock: int64(term)*1000 + int64(batch)}
				h.level = uint32(rapid.IntRange(0, 3).Draw(t, "level"))
				k, v := fmt.Sprintf("k%d", rapid.IntRange(0, 4).Draw(t, "key")), fmt.Sprintf("%d-%d", term, batch)
				body := fmt.Sprintf(`{"%s":"%s"}`, k, v)
				fate := rapid.SampledFrom([]string{"whole", "whole", "whole", "torn", "fenced", "lost"}).Draw(t, "fate")
				logTerm := term
				if fate == "fenced" {
					h.term--
				}
				for p := range parts {
					h.part = uint64(p)
					if fate == "torn" && p == parts-1 || fate == "lost" && p == 0 {
						broken = true
						continue
					}
					index++
					from, to := len(body)*p/parts, len(body)*(p+1)/parts
					log = append(log, entryOf(index, logTerm, h, body[from:to]))
				}
				if fate == "fenced" {
					broken = true
				}
				if !broken {
					want[k] = v
					level = max(level, h.level)
				}
			}
		}
		whole, wm, fatal := testFSM("c")
		whole.ApplyBatch(log)
		require.NoError(t, *fatal)
		require.Equal(t, want, wm.table)
		require.Equal(t, level, wm.level, "what counts raises it, and nothing else")

		cut := rapid.IntRange(0, len(log)).Draw(t, "snapshot after")
		first, _, _ := testFSM("a") // restarted: it does not serve, though some entries are its own
		for _, l := range log[:cut] {
			first.Apply(l)
		}
		second, sm, fatal := testFSM("b")
		require.NoError(t, second.Restore(io.NopCloser(bytes.NewReader(persist(t, first)))))
		second.ApplyBatch(log[cut:])
		require.NoError(t, *fatal)
		require.True(t, maps.Equal(want, sm.table), "%v instead of %v", sm.table, want)
		require.Equal(t, level, sm.level)
		require.Equal(t, whole.cursor, second.cursor)
	})
}

func always() bool { return true }

func TestServingSkipsItsOwnEntries(t *testing.T) {
	f, m, fatal := testFSM("a")
	at := int64(time.Hour)
	f.now = func() int64 { return at }
	f.Apply(entryOf(1, 1, header{node: "b", term: 1, batch: 1, parts: 1, clock: 5000}, `{"x":"1"}`))
	at += int64(2 * time.Millisecond)
	require.True(t, f.lead(2, always))
	require.Equal(t, int64(5000+2*time.Millisecond-2*time.Millisecond/clock.MaxDrift), m.base, "the clock goes on from the last header")
	require.NoError(t, m.set("y", "1"))
	f.ledger.Mark()
	b, ok := f.cut(1000, false)
	require.True(t, ok)
	require.Equal(t, uint64(1), b.batch)
	h := header{node: "a", term: 2, batch: 1, parts: 1, clock: b.clock}
	f.Apply(entryOf(2, 2, h, string(b.parts[0])))
	require.NoError(t, *fatal)
	require.Equal(t, 1, m.applies, "only the entry of the term before")
	require.Equal(t, map[string]string{"x": "1", "y": "1"}, m.shadow)
	require.Zero(t, f.ledger.Unacked())

	// Cut, then deposed by a later leader's entry that overtakes Raft's notice;
	// the old entry was committed all the same.
	require.NoError(t, m.set("y", "2"))
	b, ok = f.cut(1000, false)
	require.True(t, ok)
	f.stop(nil)
	require.Equal(t, "1", m.table["y"])
	h.batch = 2
	f.Apply(entryOf(3, 2, h, string(b.parts[0])))
	require.Equal(t, "2", m.table["y"])
	f.Apply(entryOf(4, 3, header{node: "b", term: 3, batch: 1, parts: 1}, `{"y":"3"}`))
	require.Equal(t, "3", m.table["y"])
	require.NoError(t, *fatal)
	require.False(t, f.lead(2, always), "a term is served once")
	require.False(t, f.lead(4, func() bool { return false }))
}

func TestLaterLeaderDeposes(t *testing.T) {
	f, m, fatal := testFSM("a")
	require.True(t, f.lead(2, always))
	require.NoError(t, m.set("x", "mine"))
	f.Apply(entryOf(1, 3, header{node: "b", term: 3, batch: 1, parts: 1}, `{"x":"theirs"}`))
	require.NoError(t, *fatal)
	require.False(t, m.leading())
	require.Equal(t, "theirs", m.table["x"])
}

func TestInvariantsStopTheNode(t *testing.T) {
	for name, l := range map[string]*raft.Log{
		"two leaders in a term": entryOf(1, 2, header{node: "b", term: 2, batch: 1, parts: 1}, `{}`),
		"an earlier term":       entryOf(1, 1, header{node: "b", term: 1, batch: 1, parts: 1}, `{}`),
		"a batch is missing":    entryOf(1, 2, header{node: "a", term: 2, batch: 2, parts: 1}, `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			f, m, fatal := testFSM("a")
			require.True(t, f.lead(2, always))
			require.NoError(t, m.set("k", "1"))
			_, ok := f.cut(1000, false) // what the entry could be taken for
			require.True(t, ok)
			f.Apply(l)
			require.ErrorIs(t, *fatal, ErrInvariant)
			require.False(t, m.leading())
			f.Apply(entryOf(2, 3, header{node: "b", term: 3, batch: 1, parts: 1}, `{"x":"1"}`))
			require.Empty(t, m.table, "nothing is applied any more")
			_, err := f.Snapshot()
			require.ErrorIs(t, err, ErrInvariant)
		})
	}
	f, _, fatal := testFSM("a")
	f.Apply(entryOf(1, 1, header{group: 3, node: "b", term: 1, batch: 1, parts: 1}, `{}`))
	require.ErrorIs(t, *fatal, ErrCorrupt)
}

func TestFailedRestoreStopsTheNode(t *testing.T) {
	f, m, fatal := testFSM("a")
	good := persist(t, f)
	require.Error(t, f.Restore(io.NopCloser(bytes.NewReader(good[:len(good)-2]))))
	require.Error(t, *fatal)
	f.Apply(entryOf(1, 1, header{node: "b", term: 1, batch: 1, parts: 1}, `{"x":"1"}`))
	require.Empty(t, m.table)
}

func TestInflightIsBounded(t *testing.T) {
	f, m, _ := testFSM("a")
	require.True(t, f.lead(2, always))
	for i := range maxInflightBatches {
		require.NoError(t, m.set("k", fmt.Sprint(i)))
		_, ok := f.cut(1000, false)
		require.True(t, ok)
	}
	require.NoError(t, m.set("k", "more"))
	_, ok := f.cut(1000, true)
	require.False(t, ok)
	f.Apply(entryOf(1, 2, header{node: "a", term: 2, batch: 1, parts: 1}, `{}`))
	_, ok = f.cut(1000, false)
	require.True(t, ok)
}

func TestEntryCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := header{
			group: rapid.Uint32().Draw(t, "group"),
			node:  rapid.StringN(0, -1, member.MaxNodeID).Draw(t, "node"),
			term:  rapid.Uint64().Draw(t, "term"),
			batch: rapid.Uint64Min(1).Draw(t, "batch"),
			clock: rapid.Int64().Draw(t, "clock"),
			level: rapid.Uint32().Draw(t, "level"),
			parts: rapid.Uint64Min(1).Draw(t, "parts"),
		}
		h.part = rapid.Uint64Max(h.parts-1).Draw(t, "part")
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		raw := encodeEntry(entryOldest, h, payload)
		require.LessOrEqual(t, len(raw), maxHeader+len(payload))
		got, p, err := decodeEntry(raw)
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.True(t, bytes.Equal(payload, p))
		head := len(raw) - len(payload)
		_, _, err = decodeEntry(raw[:rapid.IntRange(0, head-1).Draw(t, "cut")])
		require.ErrorIs(t, err, ErrCorrupt)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encodeEntry(entryOldest, header{node: "a", term: 1, batch: 1, parts: 1}, []byte("x")))
	f.Add(snapshotHeader{1, cursor{term: 3, batch: 2, parts: [][]byte{[]byte("x")}, clock: 5, level: 1}}.append(nil, snapshotOldest))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := decodeEntry(b); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
		if _, _, err := readSnapshotHeader(bytes.NewReader(b), 1); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatal(err)
		}
	})
}

func TestSnapshotHeaderCodec(t *testing.T) {
	h := snapshotHeader{9, cursor{term: 7, batch: 3, parts: [][]byte{[]byte("one"), {}}, clock: -5, level: 3}}
	raw := append(h.append(nil, snapshotOldest), "state"...)
	got, r, err := readSnapshotHeader(bytes.NewReader(raw), 9)
	require.NoError(t, err)
	require.Equal(t, h, got)
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "state", string(rest))
	_, _, err = readSnapshotHeader(bytes.NewReader(raw), 8)
	require.ErrorIs(t, err, ErrCorrupt)
	raw[len(snapshotMagic)] = snapshotNewest + 1
	_, _, err = readSnapshotHeader(bytes.NewReader(raw), 9)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "upgrade this node")
	raw[len(snapshotMagic)] = snapshotOldest - 1
	_, _, err = readSnapshotHeader(bytes.NewReader(raw), 9)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "wipe")
}

// A dead leader's entries are applied late, after the next one leads: its clock
// must not set the cluster's back to before the outage.
func TestTheClockGoesOnOverAnOutage(t *testing.T) {
	f, m, _ := testFSM("a")
	at := int64(time.Hour)
	f.now = func() int64 { return at }
	const sent, outage = int64(1_000_000 * time.Second), time.Minute
	apply := func(index uint64, clock int64) {
		f.Apply(entryOf(index, 1, header{node: "b", term: 1, batch: index, parts: 1, clock: clock}, ""))
	}
	apply(1, sent)
	at += int64(outage)
	apply(2, sent+int64(time.Millisecond))
	require.True(t, f.lead(2, always))
	require.Equal(t, sent+int64(outage-outage/clock.MaxDrift), m.base)
}

// A leader's clock lags behind the one before it. A node that follows both goes
// on from the later leader's clock. Otherwise the cluster's clock would jump
// forward when the node leads in turn.
func TestTheClockIsTheLastLeaders(t *testing.T) {
	f, m, _ := testFSM("a")
	at := int64(time.Hour)
	f.now = func() int64 { return at }
	const sent = int64(1_000_000 * time.Second)
	apply := func(index, term uint64, node string, clock int64) {
		f.Apply(entryOf(index, term, header{node: node, term: term, batch: 1, parts: 1, clock: clock}, ""))
	}
	apply(1, 1, "b", sent)
	at += int64(100 * time.Millisecond)
	apply(2, 2, "c", sent+1)
	at += int64(time.Millisecond)
	require.True(t, f.lead(3, always))
	require.Equal(t, sent+1+int64(time.Millisecond-time.Millisecond/clock.MaxDrift), m.base)
}
