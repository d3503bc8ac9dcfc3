package raftlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/headgate-io/headgate/raftlog/peer"
)

// A control connection carries a request, its answer, the next request, and so on. Each
// consists of a length in 4 bytes and a JSON object. Unknown fields are ignored. There are
// only a few requests per second, and JSON is readable in a packet dump.
const (
	maxFrame = 1 << 20

	// controlIdle is how long a control connection may be open without a request.
	controlIdle = 30 * time.Second

	// controlTimeout bounds the execution of a request; a transfer or a
	// membership change waits for a commit.
	controlTimeout = 10 * time.Second
)

// request is one control request.
type request struct {
	Op        string          `json:"op"`
	Args      json.RawMessage `json:"args,omitempty"`
	Forwarded bool            `json:"forwarded,omitempty"` // has been passed on once
}

// response answers a request.
type response struct {
	Error     string          `json:"error,omitempty"`
	NotLeader bool            `json:"not_leader,omitempty"`
	NoQuorum  bool            `json:"no_quorum,omitempty"`
	Silent    bool            `json:"silent,omitempty"`
	UnknownOp bool            `json:"unknown_op,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// The group's own operations. A follower passes the operations in leaderOps on to the
// leader, once.
const (
	opStatus   = "status"
	opFound    = "found"
	opAdopt    = "adopt"
	opSnapshot = "snapshot"
	opJoin     = "join"
	opRemove   = "remove"
	opPromote  = "promote"
)

// OpTransfer asks to hand leadership over. Its argument is {"id": the next leader, empty
// for any}.
const OpTransfer = "transfer"

var leaderOps = map[string]bool{opJoin: true, opRemove: true, opPromote: true, OpTransfer: true}

// audited are the operations that change the cluster, including those of
// Config.Handlers.
var audited = map[string]bool{opJoin: true, opRemove: true, opPromote: true, OpTransfer: true, "set-clock": true}

// memberArgs are the arguments of the operations on one member.
type memberArgs struct {
	ID   string `json:"id,omitempty"`
	Addr string `json:"addr,omitempty"`
}

// removeArgs are the arguments of a removal.
type removeArgs struct {
	ID    string `json:"id"`
	Force bool   `json:"force,omitempty"`
}

// snapshotArgs are the arguments of a question about a snapshot.
type snapshotArgs struct {
	Run int64 `json:"run,omitempty"` // 0 starts a snapshot, or joins the one being written
}

// Caller sends control requests to nodes of a group. It also works in a process that is not
// a node. Its zero Group is a valid group.
type Caller struct {
	// Dial opens a control connection, for example with Dialer.Open.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Call asks the node at addr to execute op, and decodes its result into result, unless that
// is nil. Errors of the other node become plain texts, except for ErrNotLeader, ErrQuorum,
// ErrSilent and ErrUnknownOp.
func (c Caller) Call(ctx context.Context, addr, op string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return c.do(ctx, addr, request{Op: op, Args: raw}, result)
}

// forward is a Call that the node at addr does not pass on.
func (c Caller) forward(ctx context.Context, addr, op string, args, result any) error {
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return c.do(ctx, addr, request{Op: op, Args: raw, Forwarded: true}, result)
}

// farError is an error of the far side, in its words, that callers can test for.
type farError struct {
	is   error
	text string
}

func (e farError) Error() string { return e.text }
func (e farError) Unwrap() error { return e.is }

func (c Caller) do(ctx context.Context, addr string, req request, result any) error {
	conn, err := c.open(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	return exchange(ctx, conn, addr, req, result)
}

// open opens a control connection to the node at addr.
func (c Caller) open(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := c.Dial(ctx, addr)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return nil, err // no node was reached; err names the address
	case errors.Is(err, peer.ErrSecret), errors.Is(err, peer.ErrVersion), errors.Is(err, peer.ErrNotServed), errors.Is(err, peer.ErrTooMany):
		return nil, fmt.Errorf("%s: %w", addr, err)
	case err != nil:
		return nil, fmt.Errorf("%w of %s: %w", ErrNoAnswer, addr, err)
	}
	return conn, nil
}

// exchange sends a request to the node at addr, and reads the answer. After ErrNoAnswer, the
// connection is of no more use.
func exchange(ctx context.Context, conn net.Conn, addr string, req request, result any) error {
	var resp response
	err := writeFrame(conn, req)
	if err == nil {
		err = readFrame(conn, &resp)
	}
	if err != nil {
		return fmt.Errorf("%w of %s: %w", ErrNoAnswer, addr, cmp.Or(ctx.Err(), err))
	}
	switch {
	case resp.NotLeader:
		return farError{ErrNotLeader, resp.Error}
	case resp.NoQuorum:
		return farError{ErrQuorum, resp.Error}
	case resp.Silent:
		return farError{ErrSilent, resp.Error}
	case resp.UnknownOp:
		return farError{ErrUnknownOp, addr + ": " + resp.Error}
	case resp.Error != "":
		return fmt.Errorf("%s: %s", addr, resp.Error)
	case result == nil:
		return nil
	}
	return json.Unmarshal(resp.Result, result)
}

// line is a control connection that is kept for the next question. With TLS, a new connection
// costs a node about a millisecond of processor time. A handshake is also when a node notices
// new secrets and certificates, so a line opens a new connection after lineLife.
type line struct {
	mu     sync.Mutex
	conn   net.Conn // nil: none
	addr   string
	opened time.Time
}

const lineLife = 10 * time.Second

// status asks the node at addr for its status, until the deadline of ctx. If the connection
// is broken or busy, it opens a new one.
func (l *line) status(ctx context.Context, c Caller, addr string) (s Status, err error) {
	if !l.mu.TryLock() {
		return c.Status(ctx, addr)
	}
	defer l.mu.Unlock()
	until, _ := ctx.Deadline()
	for kept := l.conn != nil && l.addr == addr && time.Since(l.opened) < lineLife; ; kept = false {
		if !kept {
			l.drop()
			if l.conn, err = c.open(ctx, addr); err != nil {
				l.conn = nil
				return s, err
			}
			l.addr, l.opened = addr, time.Now()
		}
		l.conn.SetDeadline(until)
		err = exchange(ctx, l.conn, addr, request{Op: opStatus}, &s)
		if !errors.Is(err, ErrNoAnswer) {
			return s, err
		}
		l.drop()
		if !kept || ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return s, err
		}
	}
}

// drop closes the connection, with mu held.
func (l *line) drop() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// close closes the connection when no question is under way on it.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// Status asks the node at addr for its status.
func (c Caller) Status(ctx context.Context, addr string) (Status, error) {
	var s Status
	return s, c.Call(ctx, addr, opStatus, nil, &s)
}

// Remove asks any node of the cluster to remove a member, as Group.Remove does. The node
// passes the request on to the leader.
func (c Caller) Remove(ctx context.Context, addr, id string, force bool) (done Removal, err error) {
	return done, c.Call(ctx, addr, opRemove, removeArgs{id, force}, &done)
}

// Promote asks any node of the cluster to give a member its vote now.
func (c Caller) Promote(ctx context.Context, addr, id string) error {
	return c.Call(ctx, addr, opPromote, memberArgs{ID: id}, nil)
}

// Transfer asks any node of the cluster to hand leadership to member id. If id is empty,
// the leader chooses.
func (c Caller) Transfer(ctx context.Context, addr, id string) error {
	return c.Call(ctx, addr, OpTransfer, memberArgs{ID: id}, nil)
}

// Join asks the cluster of the node at addr to add node id, reachable at nodeAddr.
func (c Caller) Join(ctx context.Context, addr, id, nodeAddr string) error {
	return c.Call(ctx, addr, opJoin, memberArgs{ID: id, Addr: nodeAddr}, nil)
}

// Snapshot returns the state of the snapshot that the node at addr is writing. If run is 0
// and the node is not writing one, it starts one. Snapshot returns within a few seconds,
// even if the snapshot is not complete. The caller then asks again, with run set to
// SnapshotRun.Run.
func (c Caller) Snapshot(ctx context.Context, addr string, run int64) (s SnapshotRun, err error) {
	return s, c.Call(ctx, addr, opSnapshot, snapshotArgs{run}, &s)
}

// Caller returns a caller over the group's own mux.
func (g *Group) Caller() Caller {
	return Caller{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return g.cfg.Mux.Dial(ctx, peer.Purpose{Kind: peer.KindControl, Group: g.cfg.GroupID}, addr)
	}}
}

// Call executes op on the node at addr. op is one of the group's own operations, or one of
// the node's Config.Handlers.
func (g *Group) Call(ctx context.Context, addr, op string, args, result any) error {
	return g.Caller().Call(ctx, addr, op, args, result)
}

// serveControl answers control connections until ctx ends. Close closes them with the
// listener.
func (g *Group) serveControl(ctx context.Context) {
	for {
		c, err := g.control.Accept()
		if err != nil {
			return
		}
		g.wg.Go(func() { g.serveConn(ctx, c) })
	}
}

func (g *Group) serveConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	for ctx.Err() == nil {
		var req request
		c.SetDeadline(time.Now().Add(controlIdle))
		if err := readFrame(c, &req); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				g.cfg.Logger.Debug("control connection", "remote", c.RemoteAddr(), "error", err)
			}
			return
		}
		rctx, cancel := context.WithTimeout(ctx, controlTimeout)
		resp := g.answer(rctx, req)
		cancel()
		if audited[req.Op] && !req.Forwarded {
			g.cfg.Audit.Info("cluster command", "from", c.RemoteAddr().String(), "command", req.Op, "arguments", string(req.Args), "error", resp.Error)
		}
		c.SetDeadline(time.Now().Add(controlTimeout))
		if err := writeFrame(c, resp); err != nil {
			return
		}
	}
}

// answer executes a request, or passes it to the leader.
func (g *Group) answer(ctx context.Context, req request) response {
	result, err := g.execute(ctx, req)
	// A node that has been removed passes nothing on.
	if errors.Is(err, ErrNotLeader) && leaderOps[req.Op] && !req.Forwarded && !g.removed() {
		if _, addr := g.Leader(); addr != "" && addr != g.cfg.Advertise {
			req.Forwarded = true
			var raw json.RawMessage
			if err = g.Caller().do(ctx, addr, req, &raw); err == nil {
				result = raw
			}
		}
	}
	if err != nil {
		return response{
			Error: err.Error(), NotLeader: errors.Is(err, ErrNotLeader), NoQuorum: errors.Is(err, ErrQuorum), Silent: errors.Is(err, ErrSilent),
			UnknownOp: errors.Is(err, ErrUnknownOp),
		}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{Result: raw}
}

func (g *Group) execute(ctx context.Context, req request) (any, error) {
	var m memberArgs
	if h := g.cfg.Handlers[req.Op]; h != nil {
		return h(ctx, req.Args)
	}
	if len(req.Args) > 0 {
		if err := json.Unmarshal(req.Args, &m); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", req.Op, err)
		}
	}
	switch req.Op {
	case opStatus:
		return g.Status(), nil
	case opSnapshot:
		var args snapshotArgs
		if err := json.Unmarshal(req.Args, &args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", req.Op, err)
		}
		return g.snapshots.ask(ctx, g, args.Run)
	case opFound:
		return g.greeted(req.Args)
	case opAdopt:
		return nil, g.adopted(req.Args)
	case opJoin:
		return nil, g.join(ctx, m)
	case opRemove:
		var args removeArgs
		if err := json.Unmarshal(req.Args, &args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", req.Op, err)
		}
		return g.Remove(ctx, args.ID, args.Force)
	case opPromote:
		return nil, g.Promote(ctx, m.ID)
	case OpTransfer:
		return nil, g.Transfer(ctx, m.ID)
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownOp, req.Op)
}

func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("control frame of %d bytes, at most %d are allowed", len(b), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	_, err = w.Write(append(frame, b...))
	return err
}

func readFrame(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("%q is not the beginning of a control frame", size)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
