package shard

// Size classes of records are multiples of 8 up to 128 bytes, because most keys are that
// small, and one more word must not cost more than a word. Larger classes are about 1.25
// times apart. Each is the largest size of which a chunk holds a given number of records.
const (
	numClasses = 30
	maxSmall   = 4096 // larger records have an allocation of their own
)

type classTable struct {
	size   [numClasses]uint16       // bytes
	bySize [maxSmall/unit + 1]uint8 // class of a size in units
}

var classes = makeClasses()

func makeClasses() (t classTable) {
	n := 0
	for ; n < 128/unit; n++ {
		t.size[n] = uint16((n + 1) * unit)
	}
	for perChunk := chunkSize / 128 * 4 / 5; n < numClasses; n++ {
		t.size[n] = uint16(chunkSize / perChunk &^ (unit - 1))
		perChunk = max(perChunk*4/5, chunkSize/maxSmall)
	}
	c := 0
	for u := range t.bySize {
		for int(t.size[c]) < u*unit {
			c++
		}
		t.bySize[u] = uint8(c)
	}
	return t
}

// of returns the class of records of size bytes, size <= maxSmall.
func (t *classTable) of(size int) int { return int(t.bySize[(size+unit-1)/unit]) }

// units returns the size of a class's records in units.
func (t *classTable) units(class int) uint16 { return t.size[class] / unit }

// perChunk returns how many records of a class a chunk holds.
func (t *classTable) perChunk(class int) uint32 { return uint32(chunkSize / int(t.size[class])) }
