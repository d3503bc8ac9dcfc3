package web

import (
	"fmt"
	"net/http"
	"sync/atomic"
)

// maxBatchMemory is what the batches that are being read and answered take
// together, beyond the first maxBodyBytes of a body, in bytes.
const maxBatchMemory = 128 << 20

// budget is how many bytes are left of a bound.
type budget struct{ left atomic.Int64 }

// take takes n bytes, if there are so many.
func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

var errNoMemory = &problem{http.StatusServiceUnavailable, "BUSY",
	fmt.Sprintf("the batches that are being answered take %d MiB", maxBatchMemory>>20)}

// take takes n bytes for the exchange, until its end. Where there are not so many,
// those lose theirs who do not read their answers: the next batch may find room.
func (x *exchange) take(n int) *problem {
	if !x.memory.take(n) {
		x.conns.endStuck()
		return errNoMemory
	}
	x.taken += n
	return nil
}

// giveBack gives back n of the bytes taken.
func (x *exchange) giveBack(n int) {
	x.memory.give(n)
	x.taken -= n
}
