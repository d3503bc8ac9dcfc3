package packed

import (
	"iter"
	"math"
)

// SortedSet is a view of members with a score each, ordered by score, and by their bytes
// among equal scores. 0 and -0 are equal scores, which keep their sign. Ranks count from
// 0 at the lowest.
type SortedSet struct{ c container }

// NewSortedSet returns a view of the value in b, which is a sorted set or
// absent.
func NewSortedSet(b Buffer) SortedSet { return SortedSet{open(b, SortedSetKind)} }

// Len returns the number of members.
func (z *SortedSet) Len() int { return z.c.len() }

// Score returns member's score.
func (z *SortedSet) Score(member []byte) (score float64, ok bool) {
	f, ok := z.c.find(member)
	if !ok {
		return 0, false
	}
	return scoreAt(z.c.v, f.at), true
}

// pair returns the member and the score of the record at offset at.
func (z *SortedSet) pair(at int) (member []byte, score float64) {
	member, _ = keyAt(z.c.v, SortedSetKind, at)
	return member, scoreAt(z.c.v, at)
}

// Put gives member a score; added is false if it had one. As in Redis, a score that
// equals the member's is not written, so that 0 does not become -0. For an existing
// member only ErrNaN can be returned. member must not lie in the sorted set.
func (z *SortedSet) Put(member []byte, score float64) (added bool, err error) {
	if math.IsNaN(score) {
		return false, ErrNaN
	}
	e := entry{key: member, score: score}
	f, ok := z.c.find(member)
	if !ok {
		err = z.c.insert(&e, f)
		return err == nil, err
	}
	if old := scoreAt(z.c.v, f.at); old != score {
		z.c.move(f, old, &e)
	}
	return false, nil
}

// Reserve makes room for members more members with size bytes together. Until Settle, as
// many calls of Put return no error except ErrNaN. So a command with many members does
// all or nothing, and the members are sorted at once. Until then, only Len, Score and Put
// may be called. An absent value becomes an empty one.
func (z *SortedSet) Reserve(members, size int) error {
	// Each length takes a byte, and one more for each 2^7 and 2^14 bytes.
	return z.c.reserve(members, size+members*(scoreSize+1)+size>>7+size>>14, 0)
}

// Settle sorts the members put since Reserve, and releases unused room. Call it before
// you release the buffer.
func (z *SortedSet) Settle() { z.c.settle() }

// Remove removes member and reports whether it existed.
func (z *SortedSet) Remove(member []byte) bool {
	f, ok := z.c.find(member)
	if !ok {
		return false
	}
	if z.c.small() {
		z.c.removeSmall(f)
		return true
	}
	rank, _ := z.c.before(bound{score: scoreAt(z.c.v, f.at), member: member})
	z.c.removeRanks(rank, rank+1)
	return true
}

// Rank returns member's rank and score.
func (z *SortedSet) Rank(member []byte) (rank int, score float64, ok bool) {
	f, ok := z.c.find(member)
	if !ok {
		return 0, 0, false
	}
	score = scoreAt(z.c.v, f.at)
	rank, _ = z.c.before(bound{score: score, member: member})
	return rank, score, true
}

// At returns the member of a rank, 0 <= rank < Len().
func (z *SortedSet) At(rank int) (member []byte, score float64) {
	return z.pair(z.c.ranked(rank))
}

// Below returns how many members have a score below score, or with equal at most score.
// That is the rank of the first member beyond. So the scores min to max, both included,
// are the ranks from Below(min, false) up to, but not including, Below(max, true).
func (z *SortedSet) Below(score float64, equal bool) int {
	rank, _ := z.c.before(bound{by: byScore, score: score, equal: equal})
	return rank
}

// Before returns how many members precede member's bytes, or with equal do not follow
// them, if all scores are equal. It corresponds to Below. The set need not have member.
func (z *SortedSet) Before(member []byte, equal bool) int {
	rank, _ := z.c.before(bound{by: byMember, member: member, equal: equal})
	return rank
}

// Range visits the ranks from, from+1, … up to, not including, to, with 0 <=
// from <= to <= Len(). The set must not change meanwhile.
func (z *SortedSet) Range(from, to int) iter.Seq2[[]byte, float64] {
	return func(yield func(member []byte, score float64) bool) { z.eachRank(from, to, yield) }
}

func (z *SortedSet) eachRank(from, to int, yield func(member []byte, score float64) bool) {
	if from >= to {
		return
	}
	at := z.c.ranked(from)
	for rank := from; ; {
		if !yield(z.pair(at)) {
			return
		}
		if rank++; rank == to {
			return
		}
		if z.c.small() {
			at = recordEnd(z.c.v, SortedSetKind, at)
		} else {
			at = z.c.ranked(rank)
		}
	}
}

// Backward visits the ranks of Range from the highest to the lowest.
func (z *SortedSet) Backward(from, to int) iter.Seq2[[]byte, float64] {
	return func(yield func(member []byte, score float64) bool) { z.eachRankBackward(from, to, yield) }
}

func (z *SortedSet) eachRankBackward(from, to int, yield func(member []byte, score float64) bool) {
	if !z.c.small() {
		for rank := to - 1; rank >= from && yield(z.pair(z.c.ranked(rank))); rank-- {
		}
		return
	}
	var offsets [maxSmall]int
	at := 1
	for rank := range to {
		offsets[rank] = at
		at = recordEnd(z.c.v, SortedSetKind, at)
	}
	for rank := to - 1; rank >= from && yield(z.pair(offsets[rank])); rank-- {
	}
}

// RemoveRange removes the ranks of Range.
func (z *SortedSet) RemoveRange(from, to int) {
	if from < to {
		z.c.removeRanks(from, to)
	}
}

// Scan visits members by cursor: see Hash.Scan.
func (z *SortedSet) Scan(cursor uint64, count int, visit func(member []byte, score float64)) (next uint64) {
	return z.c.scan(cursor, count, func(at int) { visit(z.pair(at)) })
}
