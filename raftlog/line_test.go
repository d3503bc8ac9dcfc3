package raftlog

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answerer is a node that answers control requests.
type answerer struct {
	net.Listener
	conns atomic.Int64
	last  atomic.Pointer[net.Conn]
	mute  chan struct{} // has a value while it answers nobody
}

func newAnswerer(t *testing.T) *answerer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &answerer{Listener: ln, mute: make(chan struct{}, 1)}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			a.conns.Add(1)
			a.last.Store(&c)
			go func() {
				defer c.Close()
				var req request
				for readFrame(c, &req) == nil {
					a.mute <- struct{}{}
					<-a.mute
					writeFrame(c, response{Result: []byte(`{"node": "n1"}`)})
				}
			}()
		}
	}()
	return a
}

func (a *answerer) addr() string { return a.Addr().String() }

// A line asks over one connection, and opens another when that one is of no use.
func TestLine(t *testing.T) {
	var l line
	c := Caller{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
	ask := func(addr string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		s, err := l.status(ctx, c, addr)
		if err == nil {
			require.Equal(t, "n1", s.NodeID)
		}
		return err
	}
	const long = 10 * time.Second
	a := newAnswerer(t)
	for range 3 {
		require.NoError(t, ask(a.addr(), long))
	}
	require.EqualValues(t, 1, a.conns.Load(), "one connection")

	l.opened = l.opened.Add(-lineLife)
	require.NoError(t, ask(a.addr(), long))
	require.EqualValues(t, 2, a.conns.Load(), "it is old")

	require.NoError(t, (*a.last.Load()).Close())
	require.NoError(t, ask(a.addr(), long), "the node was restarted")
	require.EqualValues(t, 3, a.conns.Load())

	a.mute <- struct{}{}
	require.ErrorIs(t, ask(a.addr(), 20*time.Millisecond), ErrNoAnswer)
	busy := make(chan error)
	go func() { busy <- ask(a.addr(), long) }()
	require.Eventually(t, func() bool { return a.conns.Load() == 4 }, long, time.Millisecond, "none that has no answer")
	require.ErrorIs(t, ask(a.addr(), 20*time.Millisecond), ErrNoAnswer, "while another question waits")
	<-a.mute
	require.NoError(t, <-busy)
	n := a.conns.Load()
	require.NoError(t, ask(a.addr(), long))
	require.Equal(t, n, a.conns.Load(), "kept again")

	b := newAnswerer(t)
	require.NoError(t, ask(b.addr(), long), "the node has moved")
	require.Equal(t, b.addr(), l.addr)
	require.NoError(t, b.Close())
	require.NoError(t, (*b.last.Load()).Close())
	require.Error(t, ask(b.addr(), long), "it is gone")
	require.Nil(t, l.conn)
}
