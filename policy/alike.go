package policy

import "sync"

// alike keeps parts that many policies have in common, because thousands of policies are
// often made from a few templates. Shared parts save memory, and stay in the processor's
// caches although few policies do. alike is only a cache: nothing depends on its contents.
// It is safe for concurrent use.
type alike struct {
	mu         sync.Mutex
	attributes map[string]*attributes
	by         map[string][]byPart
	tiers      map[string]*tierNames
}

// alikeMost bounds each map. A full map is emptied.
const alikeMost = 1000

func newAlike() *alike {
	return &alike{attributes: map[string]*attributes{}, by: map[string][]byPart{}, tiers: map[string]*tierNames{}}
}

// attributesOf returns attributes equal to these, which must not change afterwards.
func (a *alike) attributesOf(own *attributes) *attributes {
	var key []byte
	for i, label := range own.labels { // no name has what a label ends with
		key = append(append(key, label...), byte(own.types[i]))
	}
	return oneOf(a, a.attributes, key, own)
}

// byOf does the same for the `by` of a limit.
func (a *alike) byOf(own []byPart) []byPart {
	if len(own) == 0 {
		return nil
	}
	var key []byte
	for i := range own {
		part := &own[i]
		key = append(key, part.v4, part.v6, byte(len(part.attrs)))
		for _, attr := range part.attrs {
			key = append(key, byte(attr))
		}
	}
	return oneOf(a, a.by, key, own)
}

// tiersOf does the same for the names of tiers.
func (a *alike) tiersOf(names []string) *tierNames {
	var key []byte
	for _, name := range names {
		key = append(append(key, byte(len(name)>>8), byte(len(name))), name...)
	}
	return oneOf(a, a.tiers, key, newTierNames(names))
}

// oneOf returns the value under a key. If there is none, it stores v and returns it.
func oneOf[V any](a *alike, all map[string]V, key []byte, v V) V {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := all[string(key)]; ok {
		return was
	}
	if len(all) >= alikeMost {
		clear(all)
	}
	all[string(key)] = v
	return v
}
