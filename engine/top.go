package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Ranking is one of the lists of RL.TOP.
type Ranking uint8

// The rankings: keys by calls that passed, by calls denied, and by all calls.
const (
	TopAllowed Ranking = iota
	TopDenied
	TopHot
	rankings
)

// TopKey is one line of a ranking. Count is how many calls of the ranking's kind the key
// had. Counts halve every minute, so recent calls weigh more. Count is at most Error too
// high; only sampling noise makes it too low.
type TopKey struct {
	Key   []byte
	Count uint64
	Error uint64
}

const (
	// sketchFactor is how many counters a ranking keeps for each key that it reports. The
	// error of the summary is total calls / counters.
	sketchFactor = 4
	// topKeyBytes is how many bytes of a key a ranking remembers.
	topKeyBytes = 256
	// In every topWindow ns, the first exactPerWindow calls are each counted. After
	// these, one call in sampleEvery is counted as sampleEvery, at random distances, so
	// that no pattern of keys is missed.
	topWindow      = 100_000_000
	exactPerWindow = 256
	sampleEvery    = 64
)

// sampler decides which calls of a session are counted.
type sampler struct {
	windowEnd int64
	exact     int
	skip      int
	rnd       uint64
	ranks     *ranks
}

// ranks are the rankings that some of the sessions share.
type ranks struct {
	mu sync.Mutex // guards by
	by [rankings]spaceSaving
}

// rankStripes is the number of ranks. Sessions rarely meet in one, since they count few
// of their calls. So thousands of sessions need no more memory than a few. A reader
// merges the stripes, one mutex at a time, and adds up their errors.
const rankStripes = 4

// tops are the rankings of all engines of a process.
type tops struct {
	stripes [rankStripes]ranks
	next    atomic.Uint32
}

func (t *tops) init(k int) {
	for i := range t.stripes {
		for r := range t.stripes[i].by {
			t.stripes[i].by[r].cap = k * sketchFactor
		}
	}
}

// sampler returns the sampler of a new session.
func (t *tops) sampler() sampler {
	return sampler{rnd: 0x9e3779b97f4a7c15, ranks: &t.stripes[t.next.Add(1)%rankStripes]}
}

// observe counts one decision.
func (s *sampler) observe(now int64, key []byte, hash uint64, ok bool) {
	weight := uint64(1)
	if now >= s.windowEnd {
		s.windowEnd = now + topWindow
		s.exact = exactPerWindow
	}
	if s.exact > 0 {
		s.exact--
	} else if s.skip > 0 {
		s.skip--
		return
	} else {
		s.rnd ^= s.rnd << 13
		s.rnd ^= s.rnd >> 7
		s.rnd ^= s.rnd << 17
		s.skip = int(s.rnd % (2*sampleEvery - 1)) // mean sampleEvery-1
		weight = sampleEvery
	}
	outcome := TopAllowed
	if !ok {
		outcome = TopDenied
	}
	s.ranks.mu.Lock()
	s.ranks.by[outcome].add(key, hash, weight)
	s.ranks.by[TopHot].add(key, hash, weight)
	s.ranks.mu.Unlock()
}

// spaceSaving is the Space-Saving summary of Metwally, Agrawal and El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams" (2005). A new key takes
// over the smallest counter, whose count becomes its error. Counters form a min-heap.
// Memory is allocated with the first key and bounded by cap.
type spaceSaving struct {
	cap  int
	heap []topCounter
	at   map[uint64]int // hash -> index in heap
}

type topCounter struct {
	hash         uint64
	count, error uint64
	key          []byte
}

func (ss *spaceSaving) add(key []byte, hash, weight uint64) {
	if ss.at == nil {
		ss.at = make(map[uint64]int, ss.cap)
		ss.heap = make([]topCounter, 0, ss.cap)
	}
	i, ok := ss.at[hash]
	switch {
	case ok:
		ss.heap[i].count += weight
	case len(ss.heap) < ss.cap:
		i = len(ss.heap)
		ss.heap = append(ss.heap, topCounter{hash: hash, count: weight, key: clip(nil, key)})
		ss.at[hash] = i
		ss.up(i)
		return
	default:
		i = 0
		c := &ss.heap[0]
		delete(ss.at, c.hash)
		*c = topCounter{hash: hash, count: c.count + weight, error: c.count, key: clip(c.key, key)}
		ss.at[hash] = 0
	}
	ss.down(i)
}

// clip copies the remembered part of key into buf.
func clip(buf, key []byte) []byte {
	return append(buf[:0], key[:min(len(key), topKeyBytes)]...)
}

func (ss *spaceSaving) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if ss.heap[parent].count <= ss.heap[i].count {
			return
		}
		ss.swap(i, parent)
		i = parent
	}
}

func (ss *spaceSaving) down(i int) {
	for {
		small := 2*i + 1
		if small >= len(ss.heap) {
			return
		}
		if r := small + 1; r < len(ss.heap) && ss.heap[r].count < ss.heap[small].count {
			small = r
		}
		if ss.heap[i].count <= ss.heap[small].count {
			return
		}
		ss.swap(i, small)
		i = small
	}
}

func (ss *spaceSaving) swap(i, j int) {
	h := ss.heap
	h[i], h[j] = h[j], h[i]
	ss.at[h[i].hash], ss.at[h[j].hash] = i, j
}

// halve halves the counts. The order stays, and so the heap.
func (ss *spaceSaving) halve() {
	for i := range ss.heap {
		ss.heap[i].count /= 2
		ss.heap[i].error /= 2
	}
}

// each calls fn with every stripe, locked.
func (t *tops) each(fn func(r *ranks)) {
	for i := range t.stripes {
		r := &t.stripes[i]
		r.mu.Lock()
		fn(r)
		r.mu.Unlock()
	}
}

// Top returns the first n keys of a ranking, by count. n is capped by
// Config.TopK.
func (e *Engine) Top(r Ranking, n int) []TopKey {
	merged := make(map[uint64]*TopKey)
	e.shared.tops.each(func(rs *ranks) {
		for _, c := range rs.by[r].heap {
			k := merged[c.hash]
			if k == nil {
				k = &TopKey{Key: slices.Clone(c.key)}
				merged[c.hash] = k
			}
			k.Count += c.count
			k.Error += c.error
		}
	})
	out := make([]TopKey, 0, len(merged))
	for _, k := range merged {
		if k.Count > 0 {
			out = append(out, *k)
		}
	}
	slices.SortFunc(out, func(a, b TopKey) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Key, b.Key))
	})
	return out[:min(n, e.shared.topK, len(out))]
}

// ResetTop empties every ranking.
func (e *Engine) ResetTop() {
	e.shared.tops.each(func(r *ranks) {
		for i := range r.by {
			r.by[i] = spaceSaving{cap: r.by[i].cap}
		}
	})
}

// decay halves every count, so that rankings show recent traffic.
func (t *tops) decay() {
	t.each(func(r *ranks) {
		for i := range r.by {
			r.by[i].halve()
		}
	})
}
