package shard

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// quiet hides Helper, which costs a stack trace a call, most of a check's time.
type quiet struct{ require.TestingT }

// checkTable checks the invariants of every shard and of the account.
func checkTable(tb require.TestingT, tab *Table) {
	t := quiet{tb}
	bytes := int64(0)
	keys := 0
	for i := range tab.shards {
		s := &tab.shards[i]
		s.Lock()
		bytes += checkShard(t, s)
		keys += int(s.keys.Load())
		s.Unlock()
	}
	require.Equal(t, bytes, tab.Bytes(), "account")
	require.Equal(t, keys, tab.Len())
}

// checkShard checks a shard's directory, segments, records and statistics and
// returns its accounted bytes, counted afresh.
func checkShard(t require.TestingT, s *Shard) int64 {
	refs := map[uint32]bool{}
	dirty := map[string]bool{}
	segments, keys, keyBytes, recordBytes := 0, 0, 0, 0
	d := s.dir.Load()
	if len(d.segments) > 0 {
		require.Equal(t, 1<<d.depth(), len(d.segments))
	}
	for at := 0; at < len(d.segments); {
		g := d.at(at)
		require.LessOrEqual(t, g.depth, d.depth())
		run := 1 << (d.depth() - g.depth)
		require.Zero(t, at%run)
		require.EqualValues(t, at, uint64(g.prefix)<<32>>d.shift, "prefix")
		for j := range run {
			require.Same(t, g, d.at(at+j))
		}
		at += run
		segments++
		require.LessOrEqual(t, int(g.count), splitAt)
		require.EqualValues(t, at, g.end()<<32>>d.shift|bit64(d, g), "end")
		n := 0
		for i := range g.slots {
			sl := g.slots[i]
			if sl.ref == 0 {
				require.Equal(t, slot{}, sl, "an empty slot is zero")
				continue
			}
			n++
			if g.depth > 0 {
				require.Equal(t, g.prefix>>(32-g.depth), sl.tag>>(32-g.depth), "tag in segment")
			}
			for j := home(sl.tag); j != i; j = next(j) {
				require.NotZero(t, g.slots[j].ref, "a probe reaches the slot")
			}
			require.False(t, refs[sl.ref], "one slot a record")
			refs[sl.ref] = true
			e := s.entry(g, i)
			h := s.table.Hash(e.Key())
			require.Equal(t, uint32(h>>32)|dirtyBit|spaceBits, sl.tag|dirtyBit|spaceBits, "tag of the key")
			require.Same(t, s, s.table.At(h))
			keyBytes += len(e.Key())
			recordBytes += len(e.rec)
			if sl.tag&dirtyBit != 0 {
				dirty[spaceKey(e.space(s.table), e.Key())] = true
			}
		}
		require.EqualValues(t, g.count, n, "count of a segment")
		keys += n
	}
	require.Equal(t, segments, s.segments)
	require.EqualValues(t, keys, s.keys.Load())
	require.EqualValues(t, keyBytes, s.keyBytes)
	require.EqualValues(t, recordBytes, s.recordBytes)
	require.Zero(t, s.pin)

	s.Pending().Walk(func(im Image, _ bool) { delete(dirty, spaceKey(im.Space, im.Key)) })
	require.Empty(t, dirty, "dirty entries without an undo record")

	checkArena(t, &s.arena, refs)
	return int64(segments*segmentSize+len(d.segments)*dirEntry+cap(s.undo)) + s.arena.accounted()
}

// space is the key space of an entry.
func (e Entry) space(tab *Table) uint8 { return tab.SpaceOf(uint64(e.slot.tag)<<32, e.Key()) }

// spaceKey names a key of a space.
func spaceKey(space uint8, key []byte) string { return string(rune(space)) + string(key) }

// bit64 is the directory's length when g is the last segment, whose end is 2^32.
func bit64(d *directory, g *segment) uint64 {
	if g.end() == 1<<32 {
		return uint64(len(d.segments))
	}
	return 0
}

// checkArena checks chunks, lists and large records against the refs in use.
func checkArena(t require.TestingT, a *arena, refs map[uint32]bool) {
	var sum [numClasses]class
	found := 0
	for n := 1; n < len(a.chunks); n++ {
		if a.chunks[n] == nil {
			require.Contains(t, a.unused, uint32(n))
			continue
		}
		ci := a.info[n]
		step := int(classes.units(int(ci.class)))
		live, free := 0, 0
		for at := 0; at < int(ci.bump); at += step {
			ref := uint32(n<<unitBits | at)
			if binary.LittleEndian.Uint32(a.chunks[n][at*unit+4:]) == freeLens {
				require.False(t, refs[ref], "a freed record is in use")
				continue
			}
			require.True(t, refs[ref], "a record without a slot")
			require.LessOrEqual(t, len(a.record(ref)), step*unit)
			live++
		}
		for at := ci.free; at != noUnit; free++ {
			require.LessOrEqual(t, free, int(ci.bump)/step)
			require.EqualValues(t, uint32(freeLens), binary.LittleEndian.Uint32(a.chunks[n][int(at)*unit+4:]))
			at = uint16(binary.LittleEndian.Uint32(a.chunks[n][int(at)*unit:]))
		}
		require.EqualValues(t, live, ci.live)
		require.Positive(t, live, "an empty chunk is not kept")
		require.Equal(t, int(ci.bump)/step, live+free, "free list")
		require.Equal(t, ci.hasRoom() && a.drain != uint32(n), ci.listed)
		sum[ci.class].chunks++
		sum[ci.class].live += uint32(live)
		found += live
	}
	for c := range a.class {
		cl := a.class[c]
		require.Equal(t, sum[c].chunks, cl.chunks)
		require.Equal(t, sum[c].live, cl.live)
		prev := uint32(0)
		for n := cl.head; n != 0; n = a.info[n].next {
			require.Equal(t, prev, a.info[n].prev)
			require.EqualValues(t, c, a.info[n].class)
			require.True(t, a.info[n].listed)
			prev = n
		}
		require.Equal(t, prev, cl.tail)
	}
	for i, b := range a.large {
		if b == nil {
			require.Contains(t, a.noLarge, uint32(i))
			continue
		}
		require.True(t, refs[largeRef|uint32(i)])
		require.Greater(t, len(b), maxSmall)
		found++
	}
	require.Equal(t, len(refs), found, "records and slots")
}

func TestCheckNoticesDamage(t *testing.T) {
	damage := map[string]func(s *Shard){
		"count":   func(s *Shard) { s.dir.Load().at(0).count++ },
		"tag":     func(s *Shard) { s.dir.Load().at(0).slots[slotInUse(s)].tag ^= 1 << 6 },
		"keys":    func(s *Shard) { s.keys.Add(1) },
		"live":    func(s *Shard) { s.arena.info[1].live-- },
		"account": func(s *Shard) { s.table.account.add(1) },
	}
	for name, f := range damage {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Shards: 1})
			fill(t, tab, 1000)
			checkTable(t, tab)
			f(tab.Shard(0))
			var r recorder
			func() {
				defer func() { _ = recover() }()
				checkTable(&r, tab)
			}()
			require.True(t, r.failed)
		})
	}
}

func slotInUse(s *Shard) int {
	i := 0
	for s.dir.Load().at(0).slots[i].ref == 0 {
		i++
	}
	return i
}

// recorder is a test that may fail.
type recorder struct{ failed bool }

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; panic(r) }
