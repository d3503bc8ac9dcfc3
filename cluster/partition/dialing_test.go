package partition

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// farAway is a leader to which a connection takes until it is released, or given
// up.
type farAway struct {
	dials, given atomic.Int32
	release      chan struct{}
	dial         func(context.Context) (net.Conn, error)
}

func newFarAway(t *testing.T) *farAway {
	return &farAway{release: make(chan struct{}), dial: scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" })}
}

func (l *farAway) Dial(ctx context.Context) (net.Conn, error) {
	l.dials.Add(1)
	select {
	case <-l.release:
		return l.dial(ctx)
	case <-ctx.Done():
		l.given.Add(1)
		return nil, ctx.Err()
	}
}

// hurried gives a frame the deadline of a frame that has hardly any time left.
func hurried(commands ...string) *Frame {
	fr, _ := frameOf(commands...)
	mayWait(fr).retry = time.Now().Add(time.Millisecond)
	return fr
}

// A connection that takes longer than a frame may wait is there for the next:
// else a leader that is far away is never reached.
func TestAStreamIsMadeOnForTheNextFrame(t *testing.T) {
	leader, f := newFarAway(t), newFake(Following)
	f.dial = leader.Dial
	c := &carrier{f: fakePartition(t, f, FailClosed).fast}
	defer c.drop()
	a := hurried("A")
	c.deliver(a)
	require.Equal(t, Unwritten, a.End())
	close(leader.release)
	b, _ := frameOf("B")
	c.deliver(mayWait(b))
	require.Equal(t, Answered, b.End())
	require.Equal(t, "+B\r\n", string(b.Reply(0)))
	require.EqualValues(t, 1, leader.dials.Load())
}

// A stream in the making is not for the next leader, nor for nobody.
func TestAStreamInTheMakingIsGivenUp(t *testing.T) {
	leader, f := newFarAway(t), newFake(Following)
	f.dial = leader.Dial
	c := &carrier{f: fakePartition(t, f, FailClosed).fast}
	c.deliver(hurried("A"))
	c.f.leaderChanged()
	c.deliver(hurried("B"))
	require.EqualValues(t, 2, leader.dials.Load())
	require.EqualValues(t, 1, leader.given.Load())
	c.drop()
	require.EqualValues(t, 2, leader.given.Load())

	// One that was made meanwhile is closed.
	near, far := net.Pipe()
	f.set(func(f *fakeReplication) {
		f.dial = func(context.Context) (net.Conn, error) { return near, nil }
	})
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		_, _ = far.Read(make([]byte, 100))
		_, _ = far.Write([]byte("+hello\r\n"))
	}()
	c.dialing = c.f.dial(c.f.epoch.Load())
	await(t, c.dialing.done)
	await(t, greeted)
	require.NoError(t, far.SetDeadline(time.Now().Add(patience)))
	c.drop()
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// However late a frame was sent, its answer is waited for as if it had been at
// once, but where the failure policy has one.
func TestAnAnswerIsWaitedForFromWhenItsFrameWasSent(t *testing.T) {
	answer := make(chan struct{})
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string {
		if c == "A" {
			<-answer
		}
		return "+" + c + "\r\n"
	})
	for _, prompt := range []bool{true, false} {
		c := &carrier{f: fakePartition(t, f, FailLocal).fast}
		first, _ := frameOf("first")
		c.deliver(mayWait(first))
		fr, _ := frameOf("A")
		fr.Prompt = prompt
		mayWait(fr).answer = time.Now().Add(time.Millisecond)
		if !prompt {
			time.AfterFunc(50*time.Millisecond, func() { close(answer) })
		}
		c.deliver(fr)
		if prompt {
			require.Equal(t, Unknown, fr.End())
			require.Less(t, time.Since(fr.started), patience)
		} else {
			require.Equal(t, Answered, fr.End())
		}
		c.drop()
	}
}
