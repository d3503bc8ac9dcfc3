package raftlog

import (
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
)

// Connections are pooled, and those to a member that was started again are
// broken. Votes are asked once an election, a handover is asked for once: both
// go out on another connection.
func TestBrokenConnectionsCostNoVote(t *testing.T) {
	t.Parallel()
	patient := Timeouts{Heartbeat: 2 * time.Second, Election: 2 * time.Second, Lease: 2 * time.Second}
	c := newCluster(t, 3, func(_ int, c *Config) { c.Timeouts = patient })
	l := c.leader()
	from, to := l.other(1), l.other(2)
	trans := from.g.cur.Load().trans
	server, addr := to.server(), raft.ServerAddress(to.addr)
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(from.server()), Addr: []byte(from.addr)}
	// Of an old term: answered, and refused.
	requests := map[string]func() error{
		"a vote": func() error {
			return trans.RequestVote(server, addr, &raft.RequestVoteRequest{RPCHeader: header}, &raft.RequestVoteResponse{})
		},
		"a pre-vote": func() error {
			return trans.RequestPreVote(server, addr, &raft.RequestPreVoteRequest{RPCHeader: header}, &raft.RequestPreVoteResponse{})
		},
		"a handover": func() error {
			return trans.TimeoutNow(server, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
		},
	}
	for _, name := range []string{"a vote", "a pre-vote", "a handover"} {
		require.NoError(t, requests["a vote"](), "which leaves its connection in the pool")
		to.crash()
		to.start()
		c.converge()
		require.NoError(t, requests[name](), name)
	}
}

// A request goes out on another connection however its own breaks.
func TestARequestOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	require.NoError(t, certstest.New().Write("peer", certFile, keyFile))
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	whole := []byte{0xa0, 0x80} // no error, an empty response
	part := []byte{0xa5, 'h'}   // an error of five bytes, and the first of them
	for _, way := range []struct {
		name   string
		secure bool
		answer []byte // what comes before the end
		reset  bool
	}{
		{name: "closed"},
		{name: "reset", reset: true},
		{name: "closed within the answer", answer: part},
		{name: "reset within the answer", answer: part, reset: true},
		{name: "closed without a word of TLS", secure: true},
		{name: "reset below TLS", secure: true, reset: true},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			own, err := net.Listen("tcp", "127.0.0.1:0") // nobody calls it
			require.NoError(t, err)
			accept := func() (inner *net.TCPConn, c net.Conn) {
				c, err := ln.Accept()
				if err != nil {
					return nil, nil
				}
				inner = c.(*net.TCPConn)
				if way.secure {
					c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
				}
				c.Read(make([]byte, 4096)) // the request
				return inner, c
			}
			peer := make(chan struct{})
			go func() {
				defer close(peer)
				inner, c := accept()
				if c == nil {
					return
				}
				c.Write(way.answer)
				if way.reset {
					time.Sleep(20 * time.Millisecond) // a reset overtakes what is under way
					inner.SetLinger(0)
				}
				inner.Close()
				if _, c = accept(); c == nil {
					return
				}
				defer c.Close()
				c.Write(whole)
				c.Read(make([]byte, 1)) // until the transport is closed
			}()
			trans := transport{peers: newPeers(nil), NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
				Stream:  plainStreams{Listener: own, secure: way.secure},
				MaxPool: raftPool,
				Timeout: patience,
				Logger:  newRaftLogger(slog.New(slog.DiscardHandler)),
			})}
			err = trans.RequestVote("n=1", raft.ServerAddress(ln.Addr().String()), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
			trans.Close()
			trans.CloseStreams()
			ln.Close()
			<-peer
			require.NoError(t, err)
		})
	}
}

// plainStreams dials without a handshake of peers.
type plainStreams struct {
	net.Listener
	secure bool
}

func (s plainStreams) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	addr, _, _ := strings.Cut(string(target), "=")
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err == nil && s.secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	return c, err
}
