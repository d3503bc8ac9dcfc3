package shard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// modelEntry is what the model keeps of a key.
type modelEntry struct {
	meta     uint32
	deadline int64
	state    []byte
}

// model drives a table and a map side by side. With eviction a key may vanish
// from the table; what is there must still agree.
type model struct {
	table   *Table
	keys    map[string]modelEntry
	held    int // metas the table holds
	evict   bool
	journal bool
	base    map[string]modelEntry // state at the last Cut
	now     int64
}

func newModel(c Config, journal bool) *model {
	m := &model{keys: map[string]modelEntry{}, base: map[string]modelEntry{}, evict: c.Evict, journal: journal, now: 1000}
	c.Release = func(s *Shard, meta uint32) {
		m.held--
		s.CountSpace(uint8(meta>>16), -1)
	}
	c.Pressure = func(e Entry, _ int64) (crowded, alone uint32) { return e.Meta() << 16, e.Meta() << 16 }
	m.table = New(c)
	if journal {
		setJournal(m.table)
	}
	return m
}

// modelKey makes keys of several sizes out of few numbers, so that they meet
// again, and in three spaces. The first byte is the space.
func modelKey(n int) []byte {
	k := []byte{[]byte{0, 1, Spaces - 1}[n%3]}
	n /= 3
	k = binary.LittleEndian.AppendUint32(k, uint32(n))
	switch n % 16 {
	case 0:
		k = append(k, make([]byte, 60)...)
	case 1:
		k = append(k, make([]byte, 300)...)
	case 2:
		if n%7 == 0 {
			k = append(k, make([]byte, 5000)...)
		}
	}
	return k
}

var drawKey = rapid.Map(rapid.IntRange(0, 3000), modelKey)

// with runs f with the lock of key's shard held.
func (m *model) with(key []byte, f func(s *Shard, h uint64)) {
	h := m.table.Hash(key[1:]) ^ SpaceMask(key[0])
	s := m.table.At(h)
	s.Lock()
	defer s.Unlock()
	f(s, h)
}

// keyOf returns what modelKey made an entry's key of.
func (m *model) keyOf(e Entry) string {
	return string(append([]byte{e.space(m.table)}, e.Key()...))
}

func (m *model) insert(t *rapid.T, id []byte, meta uint32, words int, deadline int64) {
	m.with(id, func(s *Shard, h uint64) {
		key := id[1:]
		meta |= uint32(id[0]) << 16
		_, there := s.Find(h, key)
		if there {
			return
		}
		e, err := s.Insert(h, key, meta, words, deadline, m.now)
		if err != nil {
			require.ErrorIs(t, err, ErrFull)
			delete(m.keys, string(id))
			return
		}
		require.Equal(t, make([]byte, 8*words), e.State())
		for i := range words {
			e.SetWord(i, uint64(meta)+uint64(i)<<32)
		}
		m.held++
		s.CountSpace(id[0], 1)
		m.keys[string(id)] = modelEntry{meta, deadline, bytes.Clone(e.State())}
	})
}

// agree checks e against the model.
func (m *model) agree(t require.TestingT, e Entry) {
	want, ok := m.keys[m.keyOf(e)]
	require.True(t, ok, "a key the model has not: %x", e.Key()[:4])
	require.Equal(t, want.meta, e.Meta())
	require.Equal(t, want.deadline, e.Deadline())
	require.True(t, bytes.Equal(want.state, e.State()))
}

func (m *model) check(rt *rapid.T) {
	t := quiet{rt}
	checkTable(t, m.table)
	seen := map[string]bool{}
	var spaces [Spaces]int
	for c, first := uint64(0), true; first || c != 0; first = false {
		c = m.table.Scan(c, 100, func(e Entry) {
			m.agree(t, e)
			require.False(t, seen[m.keyOf(e)], "given twice in a table at rest")
			seen[m.keyOf(e)] = true
			spaces[e.space(m.table)]++
		})
		require.Less(t, c, uint64(1)<<53)
	}
	require.Equal(t, m.table.Len(), len(seen))
	for i, n := range spaces {
		require.Equal(t, n, m.table.SpaceLen(uint8(i)), "keys of space %d", i)
	}
	require.Equal(t, len(seen)+m.kept(), m.held, "metas held")
	for k, v := range m.keys {
		if !seen[k] {
			require.True(t, m.evict || v.deadline < m.now, "lost %x", k[:4])
			delete(m.keys, k)
		}
	}
}

// kept is how many entries the journal keeps of shards that were detached.
func (m *model) kept() (n int) {
	for i := range m.table.Shards() {
		if c := m.table.Shard(i).Pending().Contents(); c != nil {
			c.Each(func(Entry) { n++ })
		}
	}
	return n
}

// cut checks the dirty keys and replays the undo records into the base.
func (m *model) cut(t *rapid.T) {
	undone := map[string]modelEntry{}
	for k, v := range m.keys {
		undone[k] = v
	}
	for i := range m.table.Shards() {
		s := m.table.Shard(i)
		s.Lock()
		given := map[string]bool{}
		u := s.Cut(func(was Image, existed bool, e Entry, present bool) {
			if base, ok := m.base[string(append([]byte{was.Space}, was.Key...))]; present && existed {
				require.True(t, ok, "a state at the cut before that was none")
				require.Equal(t, base, modelEntry{was.Meta, was.Deadline, bytes.Clone(was.State)})
			}
			if present {
				require.Equal(t, was.Space, e.space(m.table))
				require.False(t, given[m.keyOf(e)])
				given[m.keyOf(e)] = true
				m.agree(t, e)
			}
		})
		again := s.Cut(nil)
		require.Empty(t, again.buf)
		require.Nil(t, again.before)
		s.Unlock()
		undo := func(im Image, present bool) {
			id := string(append([]byte{im.Space}, im.Key...))
			if present {
				undone[id] = modelEntry{im.Meta, im.Deadline, bytes.Clone(im.State)}
			} else {
				delete(undone, id)
			}
		}
		u.Walk(undo)
		if c := u.Contents(); c != nil {
			for k := range undone {
				if m.table.Index(m.table.Hash([]byte(k)[1:])) == i {
					delete(undone, k)
				}
			}
			c.Each(func(e Entry) {
				im := e.Image()
				im.Space = e.space(m.table)
				undo(im, true)
			})
			c.Undo().Walk(undo)
			c.Release()
		}
	}
	for k, v := range m.base { // what expired or was swept clean is not undone
		if _, ok := undone[k]; !ok && v.deadline < m.now {
			delete(m.base, k)
		}
	}
	for k, v := range undone {
		if _, ok := m.base[k]; !ok && v.deadline < m.now {
			delete(undone, k)
		}
	}
	require.Equal(t, len(m.base), len(undone))
	for k, v := range m.base {
		require.Equal(t, v, undone[k])
	}
	m.base = map[string]modelEntry{}
	for k, v := range m.keys {
		m.base[k] = v
	}
}

func (m *model) run(t *rapid.T) {
	steps := 0
	drawMeta := rapid.Uint32Range(0, math.MaxUint16)
	drawWords := rapid.OneOf(rapid.IntRange(0, 4), rapid.IntRange(0, 100), rapid.IntRange(500, 700),
		rapid.IntRange(0, 4), rapid.IntRange(0, 100), rapid.SampledFrom([]int{mostLens - 1, mostLens, mostLens + 1, MaxWords}))
	drawLife := rapid.Int64Range(0, 2000)
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if steps++; steps%4 == 0 { // a check costs more than the step it checks
				m.check(t)
			}
		},
		"insert": func(t *rapid.T) {
			m.insert(t, drawKey.Draw(t, "key"), drawMeta.Draw(t, "meta"), drawWords.Draw(t, "words"), m.now+drawLife.Draw(t, "life"))
		},
		"insertMany": func(t *rapid.T) {
			from := rapid.IntRange(0, 3000).Draw(t, "from")
			n := rapid.IntRange(0, 900).Draw(t, "n")
			life := drawLife.Draw(t, "life")
			words := rapid.IntRange(0, 3).Draw(t, "words")
			for i := range n {
				m.insert(t, modelKey(from+i), uint32(i), words, m.now+life)
			}
		},
		"find": func(t *rapid.T) {
			key := drawKey.Draw(t, "key")
			m.with(key, func(s *Shard, h uint64) {
				e, ok := s.Find(h, key[1:])
				if want, there := m.keys[string(key)]; !ok {
					require.True(t, !there || m.evict || want.deadline < m.now)
					return
				}
				m.agree(t, e)
			})
		},
		"write": func(t *rapid.T) {
			key := drawKey.Draw(t, "key")
			v := rapid.Uint64().Draw(t, "v")
			m.with(key, func(s *Shard, h uint64) {
				e, ok := s.Find(h, key[1:])
				if !ok || e.Words() == 0 {
					return
				}
				s.Touch(e)
				e.SetWord(e.Words()-1, v)
				e.SetMeta(uint32(key[0])<<16 | uint32(uint16(v)))
				e.SetDeadline(m.now + int64(v%2000))
				require.Equal(t, v, e.Word(e.Words()-1))
				m.keys[string(key)] = modelEntry{e.Meta(), e.Deadline(), bytes.Clone(e.State())}
			})
		},
		"resize": func(t *rapid.T) {
			key := drawKey.Draw(t, "key")
			words := drawWords.Draw(t, "words")
			m.with(key, func(s *Shard, h uint64) {
				e, ok := s.Find(h, key[1:])
				if !ok {
					return
				}
				want := m.keys[string(key)]
				got, err := s.Resize(e, h, words, m.now)
				if err != nil {
					require.Greater(t, words, e.Words())
					require.ErrorIs(t, err, ErrFull)
					m.agree(t, got)
					return
				}
				state := make([]byte, 8*words)
				copy(state, want.state)
				want.state = state
				m.keys[string(key)] = want
				m.agree(t, got)
				require.GreaterOrEqual(t, got.Size(), len(got.rec)+slotSize)
				require.Zero(t, s.pin)
			})
		},
		"put": func(t *rapid.T) {
			key := drawKey.Draw(t, "key")
			im := Image{Key: key[1:], Meta: uint32(key[0])<<16 | drawMeta.Draw(t, "meta"), Deadline: m.now + drawLife.Draw(t, "life")}
			im.State = bytes.Repeat([]byte{7}, 8*drawWords.Draw(t, "words"))
			m.with(key, func(s *Shard, h uint64) {
				if err := s.Put(h, im, m.now); err != nil {
					require.ErrorIs(t, err, ErrFull)
					return
				}
				m.held++
				s.CountSpace(key[0], 1)
				m.keys[string(key)] = modelEntry{im.Meta, im.Deadline, im.State}
			})
		},
		"deleteMany": func(t *rapid.T) {
			from := rapid.IntRange(0, 3000).Draw(t, "from")
			n := rapid.IntRange(1, 1500).Draw(t, "n")
			step := rapid.IntRange(1, 3).Draw(t, "step")
			for i := range n {
				key := modelKey(from + i*step)
				m.with(key, func(s *Shard, h uint64) {
					if e, ok := s.Find(h, key[1:]); ok {
						s.Delete(e)
						_, ok = s.Find(h, key[1:])
						require.False(t, ok)
					}
					delete(m.keys, string(key))
				})
			}
		},
		"sweep": func(t *rapid.T) {
			m.now += rapid.Int64Range(0, 500).Draw(t, "ns")
			for range rapid.IntRange(1, 4).Draw(t, "passes") {
				sweepAll(m.table, m.now)
			}
			for c, first := uint64(0), true; first || c != 0; first = false {
				c = m.table.Scan(c, 1000, func(e Entry) { require.False(t, e.Expired(m.now), "not swept") })
			}
		},
		"random": func(t *rapid.T) {
			rnd := func() uint64 { return rapid.Uint64().Draw(t, "random") }
			m.table.Random(rnd, m.now, func(e Entry) {
				m.agree(t, e)
				require.False(t, e.Expired(m.now))
			})
		},
		"reset": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "one in") > 0 {
				return
			}
			m.table.Reset()
			m.keys = map[string]modelEntry{}
			require.Equal(t, m.kept(), m.held)
		},
		"cut": func(t *rapid.T) {
			if m.journal {
				m.check(t)
				m.cut(t)
			}
		},
	})
}

func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for _, c := range []struct {
		Config
		journal bool
	}{
		{Config{Shards: 1}, false},
		{Config{Shards: 2}, false},
		{Config{Shards: 1}, true},
		{Config{Shards: 1, MaxBytes: 300 << 10}, false},
		{Config{Shards: 1, MaxBytes: 300 << 10, Evict: true}, false},
		{Config{Shards: 1, MaxBytes: 600 << 10, Evict: true}, true},
	} {
		t.Run(fmt.Sprintf("shards=%d,max=%d,evict=%t,journal=%t", c.Shards, c.MaxBytes, c.Evict, c.journal), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { newModel(c.Config, c.journal).run(t) })
		})
	}
}
