// Package demand divides limits between the holders of leases. It divides the rate of a
// limit, and the units that may be out, by max-min fairness: a holder that wants less
// than an equal part gets what it wants, and the other holders share the rest. All
// callers without a lease together count as one more holder, which wants the units that
// these callers have asked for lately.
//
// A Table is in the memory of one node and is not replicated. It affects only how large
// leases are, so no promise depends on it.
package demand

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/algo"
)

const (
	// maxWants bounds the number of limits and holders that are remembered, about 100 bytes
	// each. When there are more, limits are forgotten at random.
	maxWants = 1 << 18
	// maxHolders bounds the holders of one limit.
	maxHolders = algo.MaxBlocks
	// measureEvery is how often the demand of callers without a lease is measured, in ns.
	measureEvery = 250_000_000
	// forgottenAfter is how long it takes to forget that demand.
	forgottenAfter = 8 * measureEvery
	// divideFor is how long the result of a division is used, in ns for each holder. The
	// division itself takes about a hundredth of that time.
	divideFor = 10_000
	// maxRounds bounds the steps of a division. If a division needs more steps, some
	// holders get a little less than their part.
	maxRounds = 32
)

// Table has the demand for an engine's limits, by shard. The lock of a shard guards the
// demand for its limits.
type Table struct {
	shards []map[uint64]*demand // by the hash of the counter
	wants  atomic.Int64
	most   int64 // maxWants
}

// New returns a table for so many shards.
func New(shards int) *Table {
	return &Table{shards: make([]map[uint64]*demand, shards), most: maxWants}
}

// demand says how much callers want of one limit.
type demand struct {
	wants []want // by id
	// plain is the rate of callers without a lease, in units a second. asked counts their
	// units since began.
	plain, asked float64
	began        int64
	// fair is the largest rate that a caller gets, and sum is the rate that all holders get
	// together. at is when both were computed.
	fair, sum float64
	at        int64
}

// want is what a holder would use.
type want struct {
	id    uint64
	rate  float64 // units a second
	until int64   // forgotten then
}

// Asked notes units that a caller without a lease has asked for.
func (t *Table) Asked(shard int, hash uint64, units, now int64) {
	d := t.shards[shard][hash]
	if d == nil {
		return
	}
	if past := now - d.began; past >= measureEvery {
		if past >= forgottenAfter {
			d.plain, d.asked = 0, 0
		}
		d.plain = (d.plain + d.asked/float64(past)*1e9) / 2
		d.asked, d.began = 0, now
	}
	d.asked += float64(units)
}

// Share notes that a holder would use wanted units a second until a time, and returns its
// share of a limit that refills at rate.
func (t *Table) Share(shard int, hash, id uint64, wanted, rate float64, until, now int64) algo.Fair {
	d := t.of(shard, hash)
	if d == nil {
		return algo.Fair{Rate: math.MaxUint32, Out: math.MaxUint32, Contended: wanted > rate}
	}
	t.note(shard, d, want{id, wanted, until}, now)
	t.divide(d, rate, now)
	fair := min(wanted, d.fair)
	return algo.Fair{Rate: part(fair, rate), Out: part(fair, max(d.sum, fair)), Contended: wanted > d.fair}
}

// Holders returns how many holders have lately wanted units of a limit, whether or not they
// got a lease.
func (t *Table) Holders(shard int, hash uint64) int64 {
	if d := t.shards[shard][hash]; d != nil {
		return int64(len(d.wants))
	}
	return 0
}

// Level returns the most that one holder of a limit got when it was last divided, in units a
// second. The limit refills at rate.
func (t *Table) Level(shard int, hash uint64, rate float64) float64 {
	if d := t.shards[shard][hash]; d != nil && d.at != 0 {
		return min(d.fair, rate)
	}
	return rate
}

// of returns the demand of a limit, nil if there is no room.
func (t *Table) of(shard int, hash uint64) *demand {
	in := &t.shards[shard]
	if d := (*in)[hash]; d != nil {
		return d
	}
	if !t.room(shard, nil) {
		return nil
	}
	if *in == nil {
		*in = make(map[uint64]*demand)
	}
	d := new(demand)
	(*in)[hash] = d
	t.wants.Add(1)
	return d
}

// room reports whether there is room for one more. It forgets limits of the shard, but not
// the one to be kept.
func (t *Table) room(shard int, kept *demand) bool {
	for hash, d := range t.shards[shard] {
		if t.wants.Load() < t.most {
			break
		}
		if d != kept {
			t.wants.Add(-int64(len(d.wants) + 1))
			delete(t.shards[shard], hash)
		}
	}
	return t.wants.Load() < t.most
}

// note replaces a holder's earlier want by w.
func (t *Table) note(shard int, d *demand, w want, now int64) {
	i, found := d.find(w.id)
	if found {
		d.wants[i] = w
		return
	}
	if len(d.wants) == maxHolders && d.due(now) {
		t.forget(d, now)
		i, _ = d.find(w.id)
	}
	if len(d.wants) < maxHolders && t.room(shard, d) {
		d.wants = slices.Insert(d.wants, i, w)
		t.wants.Add(1)
	}
}

// find returns where the want of a holder is, or would be. Ids are hashes, and so are
// spread evenly: the want is a few places from where the id alone puts it.
func (d *demand) find(id uint64) (i int, found bool) {
	at, _ := bits.Mul64(id, uint64(len(d.wants)))
	for i = int(at); i > 0 && d.wants[i-1].id >= id; i-- {
	}
	for i < len(d.wants) && d.wants[i].id < id {
		i++
	}
	return i, i < len(d.wants) && d.wants[i].id == id
}

// forget drops what nobody wants any more.
func (t *Table) forget(d *demand, now int64) {
	kept := d.wants[:0]
	for _, w := range d.wants {
		if w.until > now {
			kept = append(kept, w)
		}
	}
	t.wants.Add(int64(len(kept) - len(d.wants)))
	d.wants = kept
}

// Gone forgets a holder that wants nothing any more.
func (t *Table) Gone(shard int, hash, id uint64) {
	d := t.shards[shard][hash]
	if d == nil {
		return
	}
	if i, found := d.find(id); found {
		d.wants[i].until, d.at = 0, 0
	}
}

// due reports whether the fair rate is to be computed again.
func (d *demand) due(now int64) bool {
	return d.at == 0 || now-d.at >= int64(len(d.wants))*divideFor
}

// divide computes the fair rate.
func (t *Table) divide(d *demand, rate float64, now int64) {
	if !d.due(now) {
		return
	}
	d.at = now
	t.forget(d, now)
	if now-d.began >= forgottenAfter {
		d.plain = 0
	}
	// A caller that wants at most an equal part of the rest gets what it wants. The parts
	// of the other callers are then larger.
	d.fair = math.Inf(1)
	for round, equal, others := 0, 0.0, len(d.wants)+1; others > 0; round++ {
		level := equal
		left := rate
		others = 0
		for i := -1; i < len(d.wants); i++ {
			r := d.plain
			if i >= 0 {
				r = d.wants[i].rate
			}
			if r <= level {
				left -= r
			} else {
				others++
			}
		}
		if others == 0 {
			break
		}
		if equal = left / float64(others); equal <= level*(1+1e-9) || round == maxRounds {
			d.fair = level
			break
		}
	}
	d.sum = 0
	for _, w := range d.wants {
		d.sum += min(w.rate, d.fair)
	}
}

// part returns a/b in 2^-32, at most all of it.
func part(a, b float64) uint32 {
	if a < b {
		return uint32(a / b * (1 << 32))
	}
	return math.MaxUint32
}
