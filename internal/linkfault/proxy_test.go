package linkfault_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// echo answers every line with itself.
func echo(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go io.Copy(c, c)
		}
	}()
	return ln.Addr().String()
}

func proxy(t *testing.T) *linkfault.Proxy {
	p, err := linkfault.New("127.0.0.1:0", echo(t))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// client is a connection from a given loopback address.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *linkfault.Proxy) *client {
	c, err := net.DialTimeout("tcp", p.Addr(), time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// ask sends a line and waits for its echo.
func (c *client) ask(wait time.Duration) error {
	c.SetDeadline(time.Now().Add(wait))
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	_, err := c.r.ReadString('\n')
	return err
}

func TestForwardAndCut(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	require.NoError(t, c.ask(time.Second))
	p.Set(linkfault.Faults{Cut: true})
	require.Error(t, c.ask(time.Second), "an open connection is closed")
	require.Error(t, dial(t, p).ask(time.Second), "a new one too")
	p.Set(linkfault.Faults{})
	require.NoError(t, dial(t, p).ask(time.Second))
}

func TestHoldIsPerDirection(t *testing.T) {
	for name, f := range map[string]linkfault.Faults{
		"to target":   {ToTarget: linkfault.Flow{Hold: true}},
		"from target": {FromTarget: linkfault.Flow{Hold: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := proxy(t)
			c := dial(t, p)
			require.NoError(t, c.ask(time.Second))
			p.Set(f)
			require.ErrorIs(t, c.ask(100*time.Millisecond), os.ErrDeadlineExceeded, "open, but silent")
			p.Set(linkfault.Faults{})
			c.SetDeadline(time.Now().Add(time.Second))
			_, err := c.r.ReadString('\n')
			require.NoError(t, err, "what was held arrives")
		})
	}
}

func TestDelay(t *testing.T) {
	p := proxy(t)
	c := dial(t, p)
	p.Set(linkfault.Faults{ToTarget: linkfault.Flow{Delay: 50 * time.Millisecond}, FromTarget: linkfault.Flow{Delay: 30 * time.Millisecond}})
	begin := time.Now()
	require.NoError(t, c.ask(2*time.Second))
	require.GreaterOrEqual(t, time.Since(begin), 80*time.Millisecond)
}

// Of the connections begun while the link was held, those still wanted reach
// the target, and only they.
func TestClientsThatGaveUp(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { target.Close() })
	p, err := linkfault.New("127.0.0.1:0", target.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	p.Set(linkfault.Hold)
	for range 10 {
		require.ErrorIs(t, dial(t, p).ask(10*time.Millisecond), os.ErrDeadlineExceeded)
	}
	for range 10 {
		c := dial(t, p)
		require.ErrorIs(t, c.ask(10*time.Millisecond), os.ErrDeadlineExceeded)
		c.Close()
	}
	time.Sleep(100 * time.Millisecond) // the proxy sees the ends
	p.Set(linkfault.Faults{})
	accepted := 0
	for target.(*net.TCPListener).SetDeadline(time.Now().Add(500 * time.Millisecond)); ; accepted++ {
		c, err := target.Accept()
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	require.Equal(t, 10, accepted)
}
