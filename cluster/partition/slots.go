package partition

// HashSlots is the number of hash slots, as in Redis Cluster.
const HashSlots = 16384

// Slots is a range of hash slots.
type Slots struct{ First, Last uint16 }

// Has reports whether slot is in the range.
func (s Slots) Has(slot uint16) bool { return s.First <= slot && slot <= s.Last }

// RangeOf returns the slots of partition i of n. The ranges of all n partitions are equally
// large, except for one slot, and follow each other.
func RangeOf(i, n int) Slots {
	return Slots{First: uint16(i * HashSlots / n), Last: uint16((i+1)*HashSlots/n - 1)}
}

// GroupOf returns which of n partitions has a slot. It is the inverse of RangeOf:
// i*HashSlots/n <= slot is the same as i*HashSlots < (slot+1)*n, and GroupOf returns the
// largest such i.
func GroupOf(slot uint16, n int) int { return ((int(slot)+1)*n - 1) / HashSlots }
