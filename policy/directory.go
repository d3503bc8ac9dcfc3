package policy

import (
	"hash/maphash"
	"iter"
	"maps"
)

// directory maps names to values. It is immutable; a directoryEditor makes the
// next one, which copies only the parts that change: a change of one policy of ten
// thousand copies forty names.
type directory[V any] struct {
	seed  maphash.Seed
	parts [directoryParts]map[string]*V
	count int
}

const directoryParts = 256

func (d *directory[V]) part(hash uint64) int { return int(hash % directoryParts) }

// get returns the value of a name, nil for none.
func (d *directory[V]) get(name []byte) *V {
	if d.count == 0 {
		return nil
	}
	return d.parts[d.part(maphash.Bytes(d.seed, name))][string(name)]
}

func (d *directory[V]) named(name string) *V {
	if d.count == 0 {
		return nil
	}
	return d.parts[d.part(maphash.String(d.seed, name))][name]
}

// all yields the names with their values, in no order.
func (d *directory[V]) all() iter.Seq2[string, *V] {
	return func(yield func(string, *V) bool) {
		for _, p := range d.parts {
			for name, v := range p {
				if !yield(name, v) {
					return
				}
			}
		}
	}
}

// edit returns an editor of d, which stays as it is.
func (d *directory[V]) edit() *directoryEditor[V] {
	next := *d
	return &directoryEditor[V]{next: &next}
}

// directoryEditor makes a directory of another.
type directoryEditor[V any] struct {
	next *directory[V]
	own  [directoryParts]bool // parts that are copies
}

// put gives a name a value, nil for none.
func (e *directoryEditor[V]) put(name string, v *V) {
	i := e.next.part(maphash.String(e.next.seed, name))
	if !e.own[i] {
		e.own[i], e.next.parts[i] = true, maps.Clone(e.next.parts[i])
	}
	p := e.next.parts[i]
	if p[name] != nil {
		e.next.count--
	}
	if v == nil {
		delete(p, name)
		return
	}
	if p == nil {
		p = make(map[string]*V)
		e.next.parts[i] = p
	}
	p[name] = v
	e.next.count++
}
