package load

import (
	"math/rand/v2"
	"time"

	"github.com/headgate-io/headgate/faults/history"
)

// Keyspace is the keys of a run: a number of places, each of which gets a new key once in every Life. The changes of the
// places are spread over time, so that at every moment there are keys at all stages, from unused to used up.
type Keyspace struct {
	Places int
	Life   time.Duration
	Spec   func(place, generation int) history.Key

	added int // places that Pick leaves out: the last ones
}

// Add gives the keyspace further places, which Pick leaves out and spec describes. It returns the first of them.
func (k *Keyspace) Add(places int, spec func(place, generation int) history.Key) (first int) {
	first, before := k.Places, k.Spec
	k.Places += places
	k.added += places
	k.Spec = func(place, generation int) history.Key {
		if place >= first {
			return spec(place-first, generation)
		}
		return before(place, generation)
	}
	return first
}

// At returns the key in a place at a time of the run.
func (k *Keyspace) At(place int, at time.Duration) uint32 {
	shift := k.Life * time.Duration(place) / time.Duration(k.Places)
	return uint32(int((at+shift)/k.Life)*k.Places + place)
}

// Pick returns the key of a random place, without those that were added.
func (k *Keyspace) Pick(rnd *rand.Rand, at time.Duration) uint32 {
	return k.At(rnd.IntN(k.Places-k.added), at)
}

// Key describes a key.
func (k *Keyspace) Key(id uint32) history.Key {
	return k.Spec(int(id)%k.Places, int(id)/k.Places)
}

// Keys describes all keys up to the given time of the run, by id.
func (k *Keyspace) Keys(until time.Duration) []history.Key {
	keys := make([]history.Key, (int(until/k.Life)+2)*k.Places)
	for i := range keys {
		keys[i] = k.Key(uint32(i))
	}
	return keys
}
