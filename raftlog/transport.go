package raftlog

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Raft's own default numbers of connections. At most two appends are in flight per
// follower; more would make the slowest answers slower (hashicorp/raft #541). Three
// connections are pooled. An answer may take 10 s, and longer for snapshots.
const (
	raftPool     = 3
	raftInFlight = 2
	raftTimeout  = 10 * time.Second
)

// transport is Raft's network transport with these changes:
//
//   - It notes what members acknowledge (acks).
//   - If another member now has the address of a request's target, the request does not
//     reach that member (reach).
//   - Pipelines do not deadlock.
//   - Peers hear of a commit only after this node has synced the entry (disk.Log).
//   - A broken connection does not cost a vote (again).
//   - Heartbeats pass through Raft's main loop. On Raft's fast path, they change the term
//     on the connection's goroutine, while the main loop may be storing entries of the
//     old term (hashicorp/raft #695, open). A transport may ignore SetHeartbeatHandler.
type transport struct {
	*raft.NetworkTransport
	log   *disk.Log
	acks  *acks
	peers *peers
}

var (
	_ raft.Transport   = transport{}
	_ raft.WithPreVote = transport{}
	_ raft.WithClose   = transport{}
)

// SetHeartbeatHandler implements raft.Transport by ignoring the handler.
func (transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries implements raft.Transport.
func (t transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.NetworkTransport.AppendEntries(id, t.reach(id, target), t.log.Capped(args), resp)
	if err == nil {
		t.acks.note(id, args, resp)
	}
	return err
}

// RequestVote implements raft.Transport.
func (t transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return again(func() error { return t.NetworkTransport.RequestVote(id, t.reach(id, target), args, resp) })
}

// RequestPreVote implements raft.WithPreVote.
func (t transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return again(func() error { return t.NetworkTransport.RequestPreVote(id, t.reach(id, target), args, resp) })
}

// InstallSnapshot implements raft.Transport.
func (t transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, t.reach(id, target), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return again(func() error { return t.NetworkTransport.TimeoutNow(id, t.reach(id, target), args, resp) })
}

// again repeats a request if its connection is broken. Pooled connections are broken after
// a member has restarted. Raft itself repeats appends. But without a repetition, a vote
// would be missing for a whole election, and a handover would fail. If the member has
// already answered the first request, it grants the same vote again, or stands for election
// again.
func again(request func() error) error {
	for range raftPool {
		if err := request(); !brokenConn(err) {
			return err
		}
	}
	return request()
}

// brokenConn reports whether err comes from a connection and not from an answer. The codec
// hides read errors other than io.EOF from errors.Is.
func brokenConn(err error) bool {
	if codec, ok := err.(interface{ Cause() error }); ok {
		err = codec.Cause()
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// reach returns the address of a member together with the id of its data, which Dial sends.
// For a member that has moved, it returns the address where the member was found. Raft uses
// the result to identify its connections.
func (t transport) reach(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(t.peers.where(id, target) + "=" + member.DataOf(id))
}

// AppendEntriesPipeline implements raft.Transport. It always reads the answers, so that
// Raft's pipeline cannot deadlock. When a follower rejects an append, Raft stops reading
// answers but may still send. In Raft's own pipeline, sending and answering would then wait
// for each other. The follower would get heartbeats but no entries until the leader changes
// (hashicorp/raft #612), and Shutdown would hang.
func (t transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, t.reach(id, target))
	if err != nil {
		return nil, err
	}
	p := &pipeline{AppendPipeline: inner, to: id, log: t.log, acks: t.acks, done: make(chan raft.AppendFuture, pipelineAnswers), closed: make(chan struct{})}
	go p.pump()
	return p, nil
}

// pipelineAnswers is how many answers may wait until Raft reads them. When an answer waits,
// Raft chooses at random between one more send and the end of the pipeline.
const pipelineAnswers = 128

// pipeline moves answers from Raft's pipeline into a buffer.
type pipeline struct {
	raft.AppendPipeline
	to     raft.ServerID
	log    *disk.Log
	acks   *acks
	done   chan raft.AppendFuture
	closed chan struct{}
	once   sync.Once
}

func (p *pipeline) pump() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() == nil {
				p.acks.note(p.to, f.Request(), f.Response())
			}
			select {
			case p.done <- f:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return p.AppendPipeline.AppendEntries(p.log.Capped(args), resp)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.AppendPipeline.Close()
}

// streams is the mux from Raft's view. It tracks dialled connections as well as accepted
// ones, so that closing the listener ends all RPCs of the group at once.
type streams struct {
	*peer.Listener
	addr     advertised
	identity *member.Identity
}

var _ raft.StreamLayer = streams{}

// Dial implements raft.StreamLayer. target is what reach returns.
func (s streams) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	addr, data, _ := strings.Cut(string(target), "=")
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.Listener.Dial(ctx, s.identity.Cluster(), data, addr)
}

// Addr implements net.Listener. It returns the address that peers use, which Raft also
// sends.
func (s streams) Addr() net.Addr { return s.addr }

// advertised is a net.Addr of a configured address, which may be a name.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// admitMembers decides about Raft's connections. It refuses all peers until asked is
// closed: by then this node has asked the peers what they know of it. After that it admits
// peers that name this cluster and this node's data.
func admitMembers(id *member.Identity, asked <-chan struct{}) peer.Admit {
	return func(ctx context.Context, p peer.Purpose, from net.Addr) error {
		select {
		case <-asked:
			return id.Meet(p.Cluster, p.Data, from)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(peer.HandshakeTimeout):
			return peer.ErrNotServed
		}
	}
}

func newTransport(c *Config, log *disk.Log, id *member.Identity, p *peers) (transport, error) {
	l, err := c.Mux.Listen(peer.KindRaft, c.GroupID, admitMembers(id, p.asked))
	if err != nil {
		return transport{}, err
	}
	return transport{log: log, acks: new(acks), peers: p, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Logger:          newRaftLogger(c.Logger),
		Stream:          streams{l, advertised(c.Advertise), id},
		MaxPool:         raftPool,
		MaxRPCsInFlight: raftInFlight,
		Timeout:         raftTimeout,
	})}, nil
}
