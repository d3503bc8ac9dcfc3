package partition

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waiting queues frames, one for each list of commands, before any carrier looks,
// and returns a carrier that has taken the first.
func waiting(p *Partition, frames ...*Frame) (*carrier, *Frame) {
	f := p.fast
	for _, fr := range frames {
		f.held.Add(1)
		f.frames <- mayWait(fr)
	}
	f.places <- struct{}{}
	return &carrier{f: f, place: place{of: f.places, taken: true}}, <-f.frames
}

// mayWait gives a frame the deadlines of a frame that was queued now.
func mayWait(fr *Frame) *Frame {
	fr.started = time.Now()
	fr.retry, fr.answer = fr.started.Add(patience), fr.started.Add(patience)
	return fr
}

func TestEachFrameOfABatchHasItsReplies(t *testing.T) {
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" })
	a, aDone := frameOf("A 1", "A 2")
	b, bDone := frameOf()
	b.Begin(2)
	for _, c := range []string{"MULTI", "B 1", "EXEC"} {
		b.Append(words(c))
	}
	c, cDone := frameOf("C 1", "C 2", "C 3")
	carry, first := waiting(fakePartition(t, f, FailClosed), a, b, c)
	defer carry.drop()
	batch := carry.gather(first)
	require.Equal(t, []*Frame{a, b, c}, batch)
	carry.deliverBatch(batch)
	for _, done := range []chan struct{}{aDone, bDone, cDone} {
		await(t, done)
	}
	for fr, want := range map[*Frame][]string{a: {"A 1", "A 2"}, b: {"EXEC"}, c: {"C 1", "C 2", "C 3"}} {
		require.Equal(t, Answered, fr.End())
		require.Equal(t, len(want), fr.Replied())
		for i, w := range want {
			require.Equal(t, "+"+w+"\r\n", string(fr.Reply(i)))
		}
	}
	// The next one's scratch is this one's.
	d, dDone := frameOf("D")
	e, eDone := frameOf("E")
	carry.deliverBatch([]*Frame{mayWait(d), mayWait(e)})
	await(t, dDone)
	await(t, eDone)
	require.Equal(t, "+E\r\n", string(e.Reply(0)))
	require.Equal(t, "+C 3\r\n", string(c.Reply(2)))
}

// Each frame of a batch asks for the room of its own replies, and for no other's.
func TestEachFrameOfABatchAsksForItsRoom(t *testing.T) {
	const large = 300 << 10
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string {
		if c == "SMALL" {
			return "+small\r\n"
		}
		return "+" + strings.Repeat("x", large) + "\r\n"
	})
	a, aDone := frameOf("LARGE")
	b, bDone := frameOf("SMALL", "SMALL")
	c, cDone := frameOf("LARGE", "SMALL")
	asked := make(map[*Frame]int)
	for _, fr := range []*Frame{a, b, c} {
		fr.Room = func(n int) bool {
			asked[fr] += n
			return fr != c
		}
	}
	carry, first := waiting(fakePartition(t, f, FailClosed), a, b, c)
	defer carry.drop()
	carry.deliverBatch(carry.gather(first))
	for _, done := range []chan struct{}{aDone, bDone, cDone} {
		await(t, done)
	}
	require.Greater(t, asked[a], large)
	require.Less(t, asked[b], 100)
	require.Greater(t, asked[c], large)
	require.Len(t, a.Reply(0), large+3)
	require.Equal(t, "-"+TextNoRoom+"\r\n", string(c.Reply(0)))
	for _, small := range [][]byte{b.Reply(0), b.Reply(1), c.Reply(1)} {
		require.Equal(t, "+small\r\n", string(small))
	}
}

func TestFramesTravelAloneToALateLeader(t *testing.T) {
	f := fakePartition(t, newFake(Following), FailClosed).fast
	a, _ := frameOf("A")
	require.True(t, f.together(a))
	f.answers.miss()
	require.False(t, f.together(a))
	f.answers.add(time.Millisecond, false)
	require.False(t, f.together(a), "that was no answer to a command")
	f.answers.add(time.Millisecond, true)
	require.True(t, f.together(a))
}

// Of frames that were sent together, those that were answered are, whatever
// becomes of the others.
func TestABatchEndsUnknownWhereItsRepliesEnd(t *testing.T) {
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string {
		if c == "C" {
			return ""
		}
		return "+" + c + "\r\n"
	})
	a, aDone := frameOf("A")
	b, bDone := frameOf("B", "C", "D")
	e, eDone := frameOf("E")
	carry, first := waiting(fakePartition(t, f, FailClosed), a, b, e)
	carry.deliverBatch(carry.gather(first))
	for _, done := range []chan struct{}{aDone, bDone, eDone} {
		await(t, done)
	}
	require.Equal(t, Answered, a.End())
	require.Equal(t, Unknown, b.End())
	require.Equal(t, 1, b.Replied())
	require.Equal(t, Unknown, e.End())
	require.Equal(t, 0, e.Replied())
}

// Only commands that were not executed are sent again.
func TestFramesOfARefusedBatchAreSentAgain(t *testing.T) {
	f := newFake(Following)
	var mu sync.Mutex
	executed := make(map[string]int)
	refusals := 0
	f.dial = scriptedLeader(t, func(c string) string {
		mu.Lock()
		defer mu.Unlock()
		if c != "A" && c != "B" && refusals < 5 {
			refusals++
			return "-" + TextNotLeader + "\r\n"
		}
		executed[c]++
		return "+" + c + "\r\n"
	})
	p := fakePartition(t, f, FailClosed)
	a, aDone := frameOf("A")
	b, bDone := frameOf("B", "C")
	d, dDone := frameOf("D")
	carry, first := waiting(p, a, b, d)
	defer carry.drop()
	carry.deliverBatch(carry.gather(first))
	for _, done := range []chan struct{}{aDone, bDone, dDone} {
		await(t, done)
	}
	for _, fr := range []*Frame{a, b, d} {
		require.Equal(t, Answered, fr.End())
	}
	require.Equal(t, "+B\r\n", string(b.Reply(0)))
	require.Equal(t, "+C\r\n", string(b.Reply(1)))
	require.Equal(t, "+D\r\n", string(d.Reply(0)))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]int{"A": 1, "B": 1, "C": 1, "D": 1}, executed)
}

// A node that ceases to follow before a batch is sent sends none of it.
func TestABatchIsNotSentByANodeThatLeads(t *testing.T) {
	f := newFake(Leading)
	f.dial = scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" }) // as a former one would
	a, aDone := frameOf("A")
	b, bDone := frameOf("B")
	carry, first := waiting(fakePartition(t, f, FailClosed), a, b)
	carry.deliverBatch(carry.gather(first))
	await(t, aDone)
	await(t, bDone)
	require.Equal(t, Ours, a.End())
	require.Equal(t, Ours, b.End())
}

// A frame of another protocol or database, or one that may take long, travels
// alone.
func TestOnlyFramesOfAKindTravelTogether(t *testing.T) {
	for _, change := range []func(*Frame){
		func(fr *Frame) { fr.RESP3 = true },
		func(fr *Frame) { fr.DB = 3 },
		func(fr *Frame) { fr.Prompt = true },
		func(fr *Frame) { fr.Selects = true },
		func(fr *Frame) { fr.handover = true },
		func(fr *Frame) { fr.alone = true },
	} {
		f := newFake(Following)
		f.dial = scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" })
		a, _ := frameOf("A")
		b, bDone := frameOf("B")
		change(b)
		carry, first := waiting(fakePartition(t, f, FailClosed), a, b)
		require.Equal(t, []*Frame{a}, carry.gather(first))
		carry.place.leave()
		await(t, bDone) // another carrier has taken it
	}
}

// Replies that wait, as for a commit, hold up no frame that comes later.
func TestALateBatchGivesItsPlaceAway(t *testing.T) {
	f := newFake(Following)
	asked, answer := make(chan struct{}, places+1), make(chan struct{})
	f.dial = scriptedLeader(t, func(c string) string {
		if c != "PROMPT" {
			asked <- struct{}{}
			<-answer
		}
		return "+" + c + "\r\n"
	})
	p := fakePartition(t, f, FailClosed)
	var late []chan struct{}
	for i := range places + 1 {
		fr, done := frameOf(fmt.Sprint("LATE ", i))
		require.True(t, p.Forward(fr))
		await(t, asked) // so that it is a batch of its own
		late = append(late, done)
	}
	for range 3 {
		fr, done := frameOf("PROMPT")
		require.True(t, p.Forward(fr))
		await(t, done)
		require.Equal(t, "+PROMPT\r\n", string(fr.Reply(0)))
	}
	close(answer)
	for _, done := range late {
		await(t, done)
	}
}
