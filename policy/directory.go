package policy

import (
	"hash/maphash"
	"iter"
	"slices"
	"unsafe"

	"github.com/headgate-io/headgate/internal/prefetch"
)

// directory maps names to values. It is immutable. A directoryEditor makes the next
// directory and copies only the parts that change. With ten thousand policies, a change
// of one policy copies a part with sixty-four policies.
//
// A part is an open-addressing table. If a name is not in the processor's caches, a
// look-up waits for two cache misses, one after the other: first for a cache line of the
// part, whose address the hash gives, then for name and value together.
type directory[V any] struct {
	seed  maphash.Seed
	parts [directoryParts][]titled[V]
	count int
}

// titled is a value and its name. A place without a value is free. Each part that is not
// nil has at least one value.
type titled[V any] struct {
	hash uint64
	name string
	v    *V
}

const (
	directoryParts = 256
	// directoryLeast is the size of the smallest part.
	directoryLeast = 4
)

// part returns the number of the part of a hash. Places use other bits.
func (d *directory[V]) part(hash uint64) int { return int(hash % directoryParts) }

func home(hash uint64) uint64 { return hash / directoryParts }

// get returns the value of a name, or nil.
func (d *directory[V]) get(name []byte) *V {
	if d.count == 0 {
		return nil
	}
	return d.find(maphash.Bytes(d.seed, name), name)
}

func (d *directory[V]) named(name string) *V {
	if d.count == 0 {
		return nil
	}
	return find(d, maphash.String(d.seed, name), name)
}

// find is get for a caller that knows the hash of the name.
func (d *directory[V]) find(hash uint64, name []byte) *V { return find(d, hash, name) }

func find[V any, N string | []byte](d *directory[V], hash uint64, name N) *V {
	part := d.parts[d.part(hash)]
	if part == nil {
		return nil
	}
	mask := uint64(len(part) - 1)
	for i := home(hash); ; i++ {
		p := &part[i&mask]
		if p.v == nil || p.hash == hash && p.name == string(name) {
			return p.v
		}
	}
}

// seek prefetches the place of a hash.
func (d *directory[V]) seek(hash uint64) {
	if part := d.parts[d.part(hash)]; part != nil {
		prefetch.Line(unsafe.Pointer(&part[home(hash)&uint64(len(part)-1)]))
	}
}

// first returns the first value of a hash, and its name; nil if there is none. It does
// not read their memory.
func (d *directory[V]) first(hash uint64) (string, *V) {
	part := d.parts[d.part(hash)]
	if part == nil {
		return "", nil
	}
	mask := uint64(len(part) - 1)
	for i := home(hash); ; i++ {
		if p := &part[i&mask]; p.v == nil || p.hash == hash {
			return p.name, p.v
		}
	}
}

// all yields the names with their values, in no order.
func (d *directory[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for _, part := range d.parts {
			for i := range part {
				if p := &part[i]; p.v != nil && !yield(p.name, p.v) {
					return
				}
			}
		}
	}
}

// edit returns an editor of d. d itself does not change.
func (d *directory[V]) edit() *directoryEditor[V] {
	next := *d
	return &directoryEditor[V]{next: &next}
}

// directoryEditor makes a directory from another.
type directoryEditor[V any] struct {
	next *directory[V]
	own  [directoryParts]bool // parts that are copies
	held [directoryParts]int  // by parts that are copies
}

// put sets the value of a name; nil removes it.
func (e *directoryEditor[V]) put(name string, v *V) {
	hash := maphash.String(e.next.seed, name)
	i := e.next.part(hash)
	part := e.take(i)
	mask := uint64(len(part) - 1)
	at := home(hash) & mask
	for part[at].v != nil && (part[at].hash != hash || part[at].name != name) {
		at = (at + 1) & mask
	}
	switch was := part[at].v; {
	case v == nil && was == nil:
	case v == nil:
		part[at] = titled[V]{}
		e.held[i]--
		e.next.count--
		e.next.parts[i] = again(part, len(part)) // searches have gone past this place
	case was == nil:
		part[at] = titled[V]{hash, name, v}
		e.held[i]++
		e.next.count++
	default:
		part[at] = titled[V]{hash, name, v}
	}
}

// take makes a part the editor's own, with room for one more name.
func (e *directoryEditor[V]) take(i int) []titled[V] {
	part := e.next.parts[i]
	if !e.own[i] {
		e.own[i] = true
		part = slices.Clone(part)
		for j := range part {
			if part[j].v != nil {
				e.held[i]++
			}
		}
	}
	if part == nil {
		part = make([]titled[V], directoryLeast)
	}
	if 4*(e.held[i]+1) > 3*len(part) {
		part = again(part, 2*len(part))
	}
	e.next.parts[i] = part
	return part
}

// again copies the values of a part to a new part of n places, a power of two.
func again[V any](part []titled[V], n int) []titled[V] {
	next := make([]titled[V], n)
	mask := uint64(n - 1)
	for _, p := range part {
		if p.v == nil {
			continue
		}
		at := home(p.hash) & mask
		for next[at].v != nil {
			at = (at + 1) & mask
		}
		next[at] = p
	}
	return next
}
