package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/decisions"
)

// Caller runs commands without a socket, for other fronts and for scripts. The commands use
// the same table, modes, durability, forwarding and failure policy as commands of a client.
// [Server.Caller] returns the server's Caller.
//
// # How it works
//
// A call borrows a line. A line is a connection without a socket and with a lane of its
// own, and the calling goroutine drives it. A client may have to wait for a commit, the
// leader, a worker or CLIENT PAUSE. In these cases the calling goroutine waits for
// posts, which are functions that other goroutines send it. Lines are made when needed,
// at most maxLines, and kept until Shutdown.
//
// All methods are safe for concurrent use.
type Caller struct {
	*access.Gate
	srv *Server

	// mu guards the fields below.
	mu     sync.Mutex
	free   []*line
	made   int
	closed bool
	// gone is closed when the server has ended and no line is borrowed.
	gone chan struct{}

	// cut is closed when the server stops to wait for running calls.
	cut chan struct{}
}

const (
	// maxLines bounds the calls that run at a time.
	maxLines = 1024
	// lineKept is the largest buffer that a line keeps for its next call.
	lineKept = 32 << 10
)

// Errors of a call that was not executed.
var (
	// ErrBusy is returned if too many calls are running.
	ErrBusy = errors.New("too many calls at a time")
	// ErrNeedsConnection is returned for a command that acts on its connection, such as
	// MULTI or SUBSCRIBE, because a Caller has no connection.
	ErrNeedsConnection = errors.New("the command needs a connection")
)

// ErrCutOff is returned if Shutdown stopped waiting for a call. The command may have been
// executed, or may still be executed.
var ErrCutOff = errors.New("cut off by the end of the server")

// ReplyError is an error reply in the form that a client gets. It begins with its code.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Caller returns the server's Caller.
func (s *Server) Caller() *Caller { return &s.caller }

// Routes returns the set of routes whose record is called name, or nil. name consists of
// `routes/` and the routes' name.
func (c *Caller) Routes(name string) *policy.Routes { return c.srv.policies.Routes(name) }

// Do runs a command and returns its reply, in RESP3. It does not keep args. If it returns
// ErrBusy, ErrNeedsConnection or, after Shutdown, ErrClosed, the command was not executed.
// It also returns ErrCutOff and the error of ctx. An error of the command itself is in the
// reply.
func (c *Caller) Do(ctx context.Context, args ...[]byte) (resp.Reply, error) {
	if len(args) == 0 {
		return resp.Reply{}, errors.New("no command")
	}
	if cmd := c.srv.table.Find(args); cmd != nil && cmd.Flags&command.NeedsConn != 0 {
		return resp.Reply{}, ErrNeedsConnection
	}
	if err := ctx.Err(); err != nil {
		return resp.Reply{}, err
	}
	ln, err := c.borrow()
	if err != nil {
		return resp.Reply{}, err
	}
	return c.run(ctx, ln, args)
}

// Pipeline runs commands and appends their replies to dst, in RESP3 and in the order of
// the commands. commands holds complete commands, in the form that a client sends. They
// run like the pipeline of a client: they reach the leader together, and their replies
// wait together for commits. Pipeline does not keep commands after it returns. Commands
// that act on their connection are answered as unknown commands. from names the caller
// for the decision log, and may be nil.
//
// Its error is ErrBusy, ErrClosed, ErrCutOff or the error of ctx, as for Do; dst is then
// unchanged. Pipeline allocates nothing if all of these are true: this node leads, no reply
// waits for a commit, dst has room, and the replies are less than 32 KiB.
func (c *Caller) Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error) {
	return c.pipeline(ctx, from, Client{}, dst, commands)
}

// PipelineAs runs the commands of Pipeline on behalf of a client. The client becomes the
// author of changes.
func (c *Caller) PipelineAs(ctx context.Context, who Client, dst, commands []byte) ([]byte, error) {
	return c.pipeline(ctx, nil, who, dst, commands)
}

func (c *Caller) pipeline(ctx context.Context, from decisions.Asker, who Client, dst, commands []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	ln, err := c.borrow()
	if err != nil {
		return dst, err
	}
	ln.behalf = who
	if from != nil && mode(c.srv.mode.Load())&modeDecisions != 0 { // the origin may be needed after the caller has given up
		ln.origin = from.Origin()
	}
	ln.begin(func() { ln.input(commands) })
	if err := c.finish(ctx, ln); err != nil {
		return dst, err
	}
	defer c.giveBack(ln)
	return append(dst, ln.out...), nil
}

// run does the work of Do on a line, and gives the line back.
func (c *Caller) run(ctx context.Context, ln *line, args [][]byte) (resp.Reply, error) {
	ln.begin(func() {
		ln.w.RESP3 = true
		ln.execute(args)
		ln.takeOff()
		ln.unrun = ln.stall != 0
	})
	if err := c.finish(ctx, ln); err != nil {
		return resp.Reply{}, err
	}
	defer c.giveBack(ln)
	return resp.DecodeReply(ln.out)
}

// finish waits for the replies of a line. If it returns an error, the replies are dropped,
// and the caller no longer owns the line.
func (c *Caller) finish(ctx context.Context, ln *line) error {
	switch err := ln.wait(ctx); {
	case errors.Is(err, ErrCutOff): // the line ends together with the server
		return err
	case err != nil:
		go func() {
			if ln.wait(context.Background()) == nil {
				c.giveBack(ln)
			}
		}()
		return ctx.Err()
	case ln.starved:
		c.giveBack(ln)
		return ReplyError("ERR the call was cut off: all clients together take more memory than maxmemory-clients")
	case ln.killed:
		c.giveBack(ln)
		return ReplyError("ERR the reply exceeds client-output-buffer-limit")
	}
	return nil
}

// borrow returns a line for one call.
func (c *Caller) borrow() (*line, error) {
	c.mu.Lock()
	if n := len(c.free); n > 0 && !c.closed {
		ln := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return ln, nil
	}
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.made == maxLines:
		return nil, ErrBusy
	}
	c.made++
	return c.srv.newLine(), nil
}

// giveBack returns a line whose call is over.
func (c *Caller) giveBack(ln *line) {
	ln.behalf, ln.origin, ln.since = Client{}, decisions.Origin{}, 0
	ln.endLeg()
	for _, b := range []*[]byte{&ln.out, &ln.lane.w.B} {
		if cap(*b) > lineKept {
			*b = nil
		}
	}
	ln.closed = ln.ending == closes
	ln.weigh() // a job has handed its memory to the line
	c.mu.Lock()
	if !c.closed && !ln.closed {
		c.free = append(c.free, ln)
		c.mu.Unlock()
		return
	}
	defer c.mu.Unlock()
	ln.lane.close()
	if c.made--; c.closed && c.made == 0 {
		close(c.gone)
	}
}

// close refuses further calls, and waits for running calls. When ctx is done, it ends
// these.
func (c *Caller) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed, c.gone = true, make(chan struct{})
	for _, ln := range c.free {
		ln.lane.close()
	}
	c.made -= len(c.free)
	c.free = nil
	if c.made == 0 {
		close(c.gone)
	}
	c.mu.Unlock()
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		close(c.cut)
		return ctx.Err()
	}
}

// line is a connection without a socket. The goroutine that has borrowed the line owns it,
// and is its driver thread.
type line struct {
	conn
	origin decisions.Origin // of the call, if there is a decision log
	out    []byte           // the reply
	woken  chan struct{}    // capacity 1: something was posted
}

// callerAddr is the address of a line.
const callerAddr = "caller"

func (s *Server) newLine() *line {
	ln := &line{woken: make(chan struct{}, 1)}
	l := s.newLane(func() {
		select {
		case ln.woken <- struct{}{}:
		default:
		}
	})
	l.table = s.unconnected
	s.lanesMu.Lock()
	l.called = true
	s.lanesMu.Unlock()
	s.bindConn(&ln.conn, l, ln, -1, callerAddr, "")
	ln.authenticated() // within the process no password is needed
	ln.become(true)
	ln.resp3 = true
	return ln
}

// begin calls execute, which runs until it must wait.
func (ln *line) begin(execute func()) {
	ln.out = ln.out[:0]
	ln.lane.begin()
	execute()
	ln.settle()
	ln.lane.end()
}

// settle implements driver.
func (ln *line) settle() {
	for {
		ln.unpark()
		for _, part := range ln.lane.takeParts() {
			ln.out = append(ln.out, part...)
		}
		ln.out = append(ln.out, ln.lane.takeOutput()...)
		ln.queued(0)
		if ln.killed || !ln.runnable() {
			return
		}
		ln.resume()
	}
}

// over reports whether the call has its complete reply or, if it was killed, nothing under
// way.
func (ln *line) over() bool {
	if ln.killed {
		return ln.stall&(stallWorker|stallLeader) == 0
	}
	return ln.stall == 0 && len(ln.segments) == 0 && ln.flight == nil && ln.deferred == nil && ln.inOff == len(ln.in)
}

var errInterrupted = errors.New("interrupted")

// wait runs posted functions until the call is over. It returns errInterrupted if ctx is
// done, and ErrCutOff if the server stops waiting for calls.
func (ln *line) wait(ctx context.Context) error {
	for !ln.over() {
		select {
		case <-ln.woken:
			ln.lane.runPosts()
		case <-ctx.Done(): // not earlier, because Done may allocate a channel
			ln.giveUp()
			return errInterrupted
		case <-ln.srv.caller.cut:
			ln.giveUp()
			return ErrCutOff
		}
	}
	return nil
}

// giveUp ends waits that only this call needs. Work that has begun continues.
func (ln *line) giveUp() {
	if ln.cancel != nil {
		ln.cancel()
	}
}

// inOtherGroups runs a command in each partition except the first, where its leader is. It
// repeats the command in a partition that answers an error, for as long as patience says.
// It is policies.Elsewhere.
func (c *Caller) inOtherGroups(args [][]byte, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(c.srv.ending, patience)
	defer cancel()
	var all errgroup.Group
	for i := range c.srv.parts[1:] {
		all.Go(func() error { return c.insist(ctx, uint16(i+1), args) })
	}
	return all.Wait()
}

// insistPause is how long insist waits before it repeats a command.
const insistPause = 20 * time.Millisecond

// insist runs a command in a partition until it succeeds. It returns the last error when ctx
// is done.
func (c *Caller) insist(ctx context.Context, of uint16, args [][]byte) error {
	for {
		reply, err := c.in(ctx, of, args)
		if err == nil && reply.Type == '-' {
			err = ReplyError(reply.Str)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("group %d: %w", of, err)
		case <-time.After(insistPause):
		}
	}
}

// askGroup implements checks.Ask.
func (c *Caller) askGroup(group int, args [][]byte) (resp.Reply, error) {
	reply, err := c.in(c.srv.ending, uint16(group), args)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrClosed) {
		return resp.Reply{Type: '-', Str: errLegsBusy}, nil
	}
	return reply, err
}

// in runs a command in a partition.
func (c *Caller) in(ctx context.Context, of uint16, args [][]byte) (resp.Reply, error) {
	ln, err := c.borrow()
	if err != nil {
		return resp.Reply{}, err
	}
	ln.place = place{home: of, only: true}
	reply, err := c.run(ctx, ln, args)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer")
	}
	return reply, err
}
