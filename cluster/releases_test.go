package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/cluster/partition"
)

// reply is one that waits, with what must have happened before it may leave.
type reply struct {
	ticket uint64
	wrote  bool
	// batch is the last batch with effects that the reply rests on, 0 for none
	// in flight; of a write it has its own.
	batch uint64
	at    int // when it was decided
	err   error
	out   bool
}

// A model of the replica and the log: tickets, batches and rounds of
// heartbeats, in any order that the log allows.
func TestRepliesLeaveInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var replies []*reply
		open, seq, committed := uint64(1), uint64(1), uint64(0)
		now := 0
		// proof is the last moment at which this node is known to have led.
		proof := 0
		begun := map[uint64]int{} // when a batch was handed to the followers
		dirty := false

		r := newReleases(nil)
		r.release = func(upTo uint64, err error) {
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
		cut := func() {
			awaited := r.awaited.Swap(false)
			ticket, ok := open, dirty
			open, dirty = open+1, false
			r.cut(seq, ticket, ok, awaited)
			if ok {
				begun[seq] = now
				seq++
			}
		}
		commit := func() {
			committed++
			proof = max(proof, begun[committed])
			r.commit(committed)
		}
		verify := func(err error) {
			upTo := r.round()
			if upTo == 0 {
				return
			}
			if err == nil {
				proof = now
			}
			now++
			r.verify(upTo, err)
		}
		decide := func(wrote bool) {
			p := &reply{ticket: open, wrote: wrote, at: now, batch: seq - 1}
			if wrote {
				dirty = true
			}
			if dirty {
				p.batch = seq
			}
			replies = append(replies, p)
			r.awaited.Store(true)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":      func(*rapid.T) { now++ },
			"write": func(*rapid.T) { decide(true) },
			"read":  func(*rapid.T) { decide(false) },
			"cut":   func(*rapid.T) { cut() },
			"commit": func(t *rapid.T) {
				if committed+1 < seq {
					commit()
				}
			},
			"verify": func(*rapid.T) { verify(nil) },
			"fail":   func(*rapid.T) { verify(partition.ErrUncertain) },
			"depose": func(*rapid.T) {
				open++
				r.deposed(open - 1)
				seq, committed, dirty = 1, 0, false
				clear(begun)
				for _, p := range replies {
					require.True(t, p.out, "a reply waits for a term that has ended")
				}
			},
		})
		// Nothing is forgotten.
		cut()
		for committed+1 < seq {
			commit()
		}
		now++
		verify(nil)
		for _, p := range replies {
			require.True(t, p.out, "a reply waits for ever")
		}
		require.Equal(t, open-1, r.done.Load())
	})
}

// The batches of a term are numbered from 1 again.
func TestReleasesOfTheNextTerm(t *testing.T) {
	released := uint64(0)
	r := newReleases(func(upTo uint64, _ error) { released = upTo })
	r.cut(1, 1, true, false)
	r.commit(1)
	r.deposed(2)
	require.EqualValues(t, 2, released)
	r.cut(1, 3, true, false) // in flight
	r.cut(2, 4, false, true) // rests on it
	upTo := r.round()
	require.EqualValues(t, 4, upTo)
	r.verify(upTo, nil)
	require.EqualValues(t, 2, released)
	r.commit(1)
	require.EqualValues(t, 4, released)
}
