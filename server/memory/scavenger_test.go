package memory

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// heap is a process's memory as a scavenger sees it.
type heap struct {
	scavenger *Scavenger

	// mu guards the fields below.
	mu      sync.Mutex
	mapped  uint64
	frees   []uint64 // what each collection leaves; when there are none left, as it is
	running int
	at      []time.Duration // when it was collected, since begun
	begun   time.Time
}

// newHeap returns one that is scavenged until the end of the test, with least
// bytes in use when nothing is under way.
func newHeap(t *testing.T, least uint64) *heap {
	h := &heap{mapped: least, begun: time.Now()}
	h.scavenger = NewScavenger(func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.running
	})
	h.scavenger.mapped = func() uint64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.mapped
	}
	h.scavenger.free = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.at = append(h.at, time.Since(h.begun))
		if len(h.frees) > 0 {
			h.mapped, h.frees = h.frees[0], h.frees[1:]
		}
	}
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	go h.scavenger.Run(end, least)
	return h
}

// set sets what is mapped, and what each collection leaves of it.
func (h *heap) set(mapped uint64, left ...uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mapped, h.frees = mapped, left
}

// runs sets how many have not ended.
func (h *heap) runs(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = n
}

// collected returns when it was collected since it was asked last.
func (h *heap) collected() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.at
	h.at, h.begun = nil, time.Now()
	return at
}

// burst ends scripts that have taken memory. Each collection leaves the next value of left. It
// returns when the collections came, counted from the burst's end. It takes a minute.
func (h *heap) burst(took uint64, left ...uint64) []time.Duration {
	h.set(took, left...)
	h.collected()
	h.scavenger.Ask()
	time.Sleep(time.Minute)
	return h.collected()
}

// When collections are tried: the first soon after a burst, and each further one
// not before the scavenger has rested.
const (
	firstTry  = scavengeAfter
	secondTry = firstTry + scavengeEvery + scavengeAfter
	thirdTry  = secondTry + scavengeEvery + scavengeAfter
)

// Memory is collected once for a burst, again when that has not freed it, three
// times at most, and not at all for little.
func TestMemoryIsCollectedUntilItIsFree(t *testing.T) {
	const least, much = 100 << 20, 1000 << 20
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(t, least)
		require.Empty(t, h.burst(least+ScavengeFrom-1), "too little")
		require.Equal(t, []time.Duration{firstTry}, h.burst(much, least))
		require.Equal(t, []time.Duration{firstTry, secondTry}, h.burst(much, much, least))
		require.Equal(t, []time.Duration{firstTry, secondTry, thirdTry}, h.burst(much, much, much, least))
		require.Equal(t, []time.Duration{firstTry}, h.burst(least+ScavengeFrom, least), "what was free at last is the measure still")
		require.Equal(t, []time.Duration{firstTry, secondTry, thirdTry}, h.burst(much), "no more is free")
	})
}

// Memory that three collections do not free while nothing runs belongs to the table, and later
// bursts are measured from it. If something runs, it may belong to that.
func TestMemoryThatStaysIsTheTables(t *testing.T) {
	const least, grown = 100 << 20, 1000 << 20
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(t, least)
		h.runs(1)
		require.Len(t, h.burst(grown), 1+scavengeAgain)
		h.runs(0)
		require.Len(t, h.burst(grown), 1+scavengeAgain, "it was not taken for the table's")
		require.Empty(t, h.burst(grown), "it was")
		require.Empty(t, h.burst(grown+ScavengeFrom-1))
		require.Len(t, h.burst(grown+ScavengeFrom, grown), 1)
		require.Len(t, h.burst(grown+ScavengeFrom, least), 1, "the table has shrunk")
		require.Len(t, h.burst(grown, least), 1)
	})
}

// A burst has all its tries, though the one before has ended by itself.
func TestEachBurstHasItsTries(t *testing.T) {
	const least, much = 100 << 20, 1000 << 20
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(t, least)
		for range 3 {
			h.set(much)
			h.scavenger.Ask()
			time.Sleep(firstTry + time.Second)
			h.set(least) // by itself
			time.Sleep(time.Minute)
		}
		require.Equal(t, []time.Duration{firstTry, secondTry, thirdTry}, h.burst(much, much, much, least))
	})
}

// Bursts one after the other are collected after no less than the rest.
func TestMemoryIsCollectedSeldom(t *testing.T) {
	const least, much = 100 << 20, 1000 << 20
	synctest.Test(t, func(t *testing.T) {
		h := newHeap(t, least)
		for range 600 {
			h.set(much, least)
			h.scavenger.Ask()
			time.Sleep(100 * time.Millisecond)
		}
		at := h.collected()
		require.Greater(t, len(at), 4)
		for i := range at[1:] {
			require.Equal(t, scavengeEvery+scavengeAfter, at[i+1]-at[i])
		}
	})
}
