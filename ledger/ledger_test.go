package ledger

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// reply is a waiting reply, with the conditions under which it may leave.
type reply struct {
	ticket uint64
	// batch is the last batch with effects on which the reply rests, 0 for none in
	// flight. A write rests on its own.
	batch uint64
	at    int // when it was decided
	wrote bool
	err   error
	out   bool
}

var (
	errRound   = errors.New("no majority has answered")
	errUndone  = errors.New("undone")
	errUnknown = errors.New("unknown")
)

// A model of the machine and the log: tickets, batches and rounds of
// heartbeats, in any order that the log allows.
func TestRepliesLeaveInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var replies []*reply
		var flights []uint64
		committed := uint64(0)
		now := 0
		// proof is the last moment at which this node is known to have led.
		proof := 0
		begun := map[uint64]int{} // when a batch was handed to the followers
		dirty := false

		release := func(upTo uint64, err error) {
			for _, p := range replies {
				if p.out || p.ticket > upTo {
					continue
				}
				p.out, p.err = true, err
				if err == nil {
					require.LessOrEqual(t, p.batch, committed, "a reply left before the effects that it rests on were committed")
					require.Less(t, p.at, proof, "a reply left although another node may have led when it was decided")
				}
			}
		}
		l := New(Hooks{Release: release, Ended: func(upTo uint64, undone bool) {
			if !undone {
				release(upTo, errUnknown)
				return
			}
			for _, p := range replies {
				require.False(t, !p.out && p.wrote && p.ticket <= committed, "a reply is undone, and its effects are committed")
			}
			release(upTo, errUndone)
		}})
		cut := func(tick bool) {
			c := l.Begin()
			if !dirty {
				l.Empty(c)
				if !tick {
					return
				}
				l.Tick()
			} else {
				l.Add(c, nil)
				l.Encoded([][]byte{{1}})
			}
			dirty = false
			begun[c.Ticket] = now
			flights = append(flights, c.Ticket)
		}
		commit := func() {
			committed = flights[0]
			flights = flights[1:]
			proof = max(proof, begun[committed])
			require.True(t, l.Commit())
		}
		verify := func(err error) {
			upTo := l.Round()
			if upTo == 0 {
				return
			}
			if err == nil {
				proof = now
			}
			now++
			l.Verified(upTo, err)
		}
		decide := func(wrote bool) {
			p := &reply{ticket: l.Open(), at: now, wrote: wrote}
			if len(flights) > 0 {
				p.batch = flights[len(flights)-1]
			}
			if dirty = dirty || wrote; dirty {
				p.batch = p.ticket
			}
			replies = append(replies, p)
			l.Await()
		}
		t.Repeat(map[string]func(*rapid.T){
			"":      func(*rapid.T) { now++ },
			"write": func(*rapid.T) { decide(true) },
			"read":  func(*rapid.T) { decide(false) },
			"cut":   func(*rapid.T) { cut(false) },
			"tick":  func(*rapid.T) { cut(true) },
			"commit": func(t *rapid.T) {
				if len(flights) > 0 {
					commit()
				} else {
					require.False(t, l.Commit(), "nothing is in flight")
				}
			},
			"verify": func(*rapid.T) { verify(nil) },
			"fail":   func(*rapid.T) { verify(errRound) },
			"depose": func(t *rapid.T) {
				l.Depose()
				// The next leader may have some of the flights, from the oldest on.
				for _, ticket := range flights[:rapid.IntRange(0, len(flights)).Draw(t, "survivors")] {
					committed = ticket
					proof = max(proof, begun[ticket])
					require.True(t, l.Survived())
				}
				if rapid.Bool().Draw(t, "forgotten") {
					l.Forget()
				} else {
					l.Undone()
				}
				require.False(t, l.Survived(), "the outcome is known")
				flights, dirty = nil, false
				clear(begun)
				for _, p := range replies {
					require.True(t, p.out, "a reply waits for a term that has ended")
				}
				require.Zero(t, l.Unacked())
				l.Lead()
			},
		})
		// Nothing is forgotten.
		cut(false)
		for len(flights) > 0 {
			commit()
		}
		now++
		verify(nil)
		for _, p := range replies {
			require.True(t, p.out, "a reply waits for ever")
		}
		require.Equal(t, l.Open()-1, l.Settled())
		require.True(t, l.Released())
	})
}

// A denial of a term waits for that term's batch, not for one of the term
// before.
func TestDenialsOfTheNextTerm(t *testing.T) {
	released := uint64(0)
	l := New(Hooks{
		Release: func(upTo uint64, _ error) { released = upTo },
		Ended:   func(upTo uint64, undone bool) { released = upTo },
	})
	batch := func() { l.Add(l.Begin(), nil) }
	batch()
	l.Commit()
	l.Depose()
	l.Lead()
	require.EqualValues(t, 2, released)
	batch() // in flight
	l.Await()
	l.Empty(l.Begin()) // rests on it
	upTo := l.Round()
	require.EqualValues(t, 4, upTo)
	l.Verified(upTo, nil)
	require.EqualValues(t, 2, released)
	l.Commit()
	require.EqualValues(t, 4, released)
}

// A round that fails after its term has ended says nothing of what the next leader may have.
func TestARoundDoesNotEndALostTerm(t *testing.T) {
	released := uint64(0)
	l := New(Hooks{Release: func(upTo uint64, _ error) { released = upTo }})
	l.Add(l.Begin(), nil)
	l.Await()
	l.Empty(l.Begin())
	upTo := l.Round()
	require.EqualValues(t, 2, upTo)
	l.Depose()
	l.Verified(upTo, errRound)
	require.Zero(t, released)
	require.True(t, l.Survived())
	require.EqualValues(t, 1, released)
}

// rung takes one ring of a bell.
func rung(bell <-chan struct{}) bool {
	select {
	case <-bell:
		return true
	default:
		return false
	}
}

// The bell rings for the proposer once a cut, again when somebody waits, and not while it
// could not cut anyway.
func TestTheBellRingsForTheProposer(t *testing.T) {
	l := New(Hooks{})
	l.Mark()
	require.True(t, rung(l.Due()))
	l.Mark()
	require.False(t, rung(l.Due()), "marked already")
	l.Await()
	require.True(t, rung(l.Due()), "ahead of its pace")
	require.True(t, l.Flushing())
	c := l.Begin()
	require.False(t, l.Flushing())
	l.Mark() // behind the cut
	rung(l.Due())
	l.Add(c, nil)
	require.True(t, l.Dirty())
	l.Flush()
	require.False(t, rung(l.Due()), "there is a flight")
	l.Commit()
	require.True(t, rung(l.Due()), "what was marked meanwhile")
	l.Depose()
	l.Mark() // by somebody who has not heard of it
	l.Lead()
	require.Zero(t, l.Unacked(), "nothing of the new term is dirty")
}

// A decision made before the ticket is read is in the cut of that ticket or an earlier
// one, whatever cuts happen meanwhile.
func TestNumbersCoverWhatWasDecidedBefore(t *testing.T) {
	l := New(Hooks{})
	var mu sync.Mutex
	dirty := false
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := l.Begin()
			mu.Lock()
			dirty = false
			mu.Unlock()
			l.Empty(c)
		}
	})
	for range 1000 {
		mu.Lock()
		dirty = true
		mu.Unlock()
		ticket := l.Open()
		for l.Settled() < ticket {
		}
		mu.Lock()
		require.False(t, dirty)
		mu.Unlock()
	}
	close(stop)
	wg.Wait()
}

// A decision made after Since was read is in the cut of that ticket or a later one, even if a
// cut is looking at the shards.
func TestNoCutBeforeSinceHasWhatIsDecidedNext(t *testing.T) {
	l := New(Hooks{})
	var mu sync.Mutex
	dirty, taken := false, uint64(0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			c := l.Begin()
			runtime.Gosched()
			mu.Lock()
			if dirty {
				dirty, taken = false, c.Ticket
			}
			mu.Unlock()
			l.Empty(c)
		}
	})
	for range 1000 {
		since := l.Since()
		runtime.Gosched()
		mu.Lock()
		dirty = true
		mu.Unlock()
		for mu.Lock(); dirty; mu.Lock() {
			mu.Unlock()
			runtime.Gosched()
		}
		require.GreaterOrEqual(t, taken, since)
		mu.Unlock()
	}
	stop.Store(true)
	wg.Wait()
}

func BenchmarkMark(b *testing.B) {
	l := New(Hooks{})
	for b.Loop() {
		l.Mark()
	}
}
