package packed

import "iter"

// Set is a view of members, in the order in which they were added.
type Set struct{ c container }

// NewSet returns a view of the value in b, which is a set or absent.
func NewSet(b Buffer) Set { return Set{open(b, SetKind)} }

// Len returns the number of members.
func (s *Set) Len() int { return s.c.len() }

// Has reports whether member is in the set.
func (s *Set) Has(member []byte) bool {
	_, ok := s.c.find(member)
	return ok
}

func (s *Set) member(at int) []byte {
	key, _ := keyAt(s.c.v, SetKind, at)
	return key
}

// Add adds member and reports whether it is new. It must not lie in the set.
func (s *Set) Add(member []byte) (added bool, err error) {
	f, ok := s.c.find(member)
	if ok {
		return false, nil
	}
	err = s.c.add(&entry{key: member}, f.at)
	return err == nil, err
}

// AddAll adds members: all, or none with an error. It returns how many are new.
func (s *Set) AddAll(members [][]byte) (added int, err error) {
	if len(members) > 1 {
		var entries, size int
		for _, m := range members {
			if !s.Has(m) {
				entries++
				size += sized(len(m))
			}
		}
		if err := s.c.reserve(entries, size, 0); err != nil {
			return 0, err
		}
		defer s.c.settle()
	}
	for _, m := range members {
		fresh, err := s.Add(m)
		if err != nil {
			return added, err
		}
		if fresh {
			added++
		}
	}
	return added, nil
}

// Remove removes member and reports whether it existed.
func (s *Set) Remove(member []byte) bool { return s.c.remove(member) }

// All visits all members in order. The set must not change meanwhile.
func (s *Set) All() iter.Seq[[]byte] {
	return func(yield func(member []byte) bool) { s.each(yield) }
}

func (s *Set) each(yield func(member []byte) bool) {
	s.c.each(func(at int) bool { return yield(s.member(at)) })
}

// Random returns one member, each with the same probability: see Hash.Random.
// To pop it, copy it and then Remove it.
func (s *Set) Random(next func() uint64) []byte { return s.member(s.c.random(next)) }

// Sample visits n different members: see Hash.Sample.
func (s *Set) Sample(n int, next func() uint64) iter.Seq[[]byte] {
	return func(yield func(member []byte) bool) {
		s.c.sample(n, next, func(at int) bool { return yield(s.member(at)) })
	}
}

// Scan visits members by cursor: see Hash.Scan.
func (s *Set) Scan(cursor uint64, count int, visit func(member []byte)) (next uint64) {
	return s.c.scan(cursor, count, func(at int) { visit(s.member(at)) })
}
