package server

import (
	"context"
	"errors"
	"sync"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/decisions"
)

// Caller runs commands without a socket, for other fronts and for scripts: the
// same table, modes, durability, forwarding and failure policy as for a client.
// Get one from [Server.Caller].
//
// # How it works
//
// A call borrows a line: a connection whose driver is the goroutine that calls,
// with a lane of its own. What would make a client wait - a commit, the leader, a
// worker, CLIENT PAUSE - makes the goroutine wait for the posts that end it.
// Lines are made when they are needed, at most maxLines, and kept until Shutdown.
//
// All methods may be called by any goroutine.
type Caller struct {
	*access.Gate
	srv *Server

	// mu guards the fields below.
	mu     sync.Mutex
	free   []*line
	made   int
	closed bool
	// gone is closed when the server ends and no line is borrowed.
	gone chan struct{}

	// cut is closed when the server ends without waiting for what is under way.
	cut chan struct{}
}

const (
	// maxLines bounds the calls at a time.
	maxLines = 1024
	// lineKept is the largest buffer that a line keeps for its next call.
	lineKept = 32 << 10
)

// Errors of a call that has not been executed.
var (
	// ErrBusy tells that too many calls are under way.
	ErrBusy = errors.New("too many calls at a time")
	// ErrNeedsConnection tells that a command acts on its connection, such as
	// MULTI or SUBSCRIBE, and a Caller has none.
	ErrNeedsConnection = errors.New("the command needs a connection")
)

// ErrCutOff tells that Shutdown did not wait for a call, which may have been
// executed, or may still be.
var ErrCutOff = errors.New("cut off by the end of the server")

// ReplyError is an error reply as a client would get it; it begins with its
// code.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Caller returns the server's Caller.
func (s *Server) Caller() *Caller { return &s.caller }

// Routes returns a set of routes by the name of its record, `routes/` and a name, or
// nil.
func (c *Caller) Routes(name string) *policy.Routes { return c.srv.policies.Routes(name) }

// Do runs a command and returns its reply, in RESP3. args are not kept. Its
// error is ErrBusy, ErrNeedsConnection, or, after Shutdown, ErrClosed, and with these
// nothing was executed; or ErrCutOff or that of ctx. What the command itself answers
// is in the reply, errors too.
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

// Pipeline runs commands as a client would have sent them, one behind the other
// and none cut short, and appends their replies to dst, in RESP3 and in the order of
// the commands. So they are run like any pipeline: they reach the leader
// together, and their replies wait together. commands are not kept. Commands
// that act on their connection are answered as if they did not exist. from, which may
// be nil, tells the decision log whence they come.
//
// Its error is ErrBusy, ErrClosed, ErrCutOff or that of ctx, as Do's; dst is then
// what it was. On a node that leads, without waiting for commits, it allocates nothing
// if dst has room and the replies are less than 32 KiB.
func (c *Caller) Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error) {
	return c.pipeline(ctx, from, Client{}, dst, commands)
}

// PipelineAs is Pipeline on behalf of a client, who becomes the author of changes.
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
	if from != nil && mode(c.srv.mode.Load())&modeDecisions != 0 { // which may outlast the caller's interest
		ln.origin = from.Origin()
	}
	ln.begin(func() { ln.input(commands) })
	if err := c.finish(ctx, ln); err != nil {
		return dst, err
	}
	defer c.giveBack(ln)
	return append(dst, ln.out...), nil
}

// run is Do on a line, which it gives back.
func (c *Caller) run(ctx context.Context, ln *line, args [][]byte) (resp.Reply, error) {
	ln.begin(func() {
		ln.w.RESP3 = true
		ln.execute(args)
		ln.sendFrame()
		ln.unrun = ln.stall != 0
	})
	if err := c.finish(ctx, ln); err != nil {
		return resp.Reply{}, err
	}
	defer c.giveBack(ln)
	return resp.DecodeReply(ln.out)
}

// finish waits for the replies of a line. With an error they are nobody's, and
// the line is not the caller's any more.
func (c *Caller) finish(ctx context.Context, ln *line) error {
	switch err := ln.wait(ctx); {
	case errors.Is(err, ErrCutOff): // the line ends with the server
		return err
	case err != nil:
		go func() {
			if ln.wait(context.Background()) == nil {
				c.giveBack(ln)
			}
		}()
		return ctx.Err()
	case ln.killed:
		c.giveBack(ln)
		return ReplyError("ERR the reply is more than client-output-buffer-limit")
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

// giveBack takes a line whose call is over.
func (c *Caller) giveBack(ln *line) {
	ln.behalf, ln.origin = Client{}, decisions.Origin{}
	for _, b := range []*[]byte{&ln.out, &ln.lane.w.B} {
		if cap(*b) > lineKept {
			*b = nil
		}
	}
	c.mu.Lock()
	if !c.closed && ln.ending != closes {
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

// close refuses further calls and waits for those under way, until ctx is done:
// then it ends them.
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

// line is a connection without a socket: it belongs to the goroutine that has
// borrowed it, which is its driver thread.
type line struct {
	conn
	origin decisions.Origin // of the call, while there is a decision log
	out    []byte           // the reply
	woken  chan struct{}    // capacity 1: something has been posted
}

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
	s.bindConn(&ln.conn, l, ln, -1, "caller", "")
	ln.authenticated() // within the process nobody asks for a password
	ln.become(true)
	ln.resp3 = true
	return ln
}

// begin runs what execute does, as far as that goes without waiting.
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

// over reports whether the call has its whole reply.
func (ln *line) over() bool {
	return ln.stall == 0 && len(ln.segments) == 0 && ln.frame == nil && ln.deferred == nil && ln.inOff == len(ln.in)
}

var errInterrupted = errors.New("interrupted")

// wait runs what is posted until the call is over. Its error is errInterrupted
// when ctx is done, and ErrCutOff when the server waits no longer.
func (ln *line) wait(ctx context.Context) error {
	for !ln.over() {
		select {
		case <-ln.woken:
			ln.lane.runPosts()
		case <-ctx.Done(): // asked for only here: it may make a channel
			ln.giveUp()
			return errInterrupted
		case <-ln.srv.caller.cut:
			ln.giveUp()
			return ErrCutOff
		}
	}
	return nil
}

// giveUp ends what waits, rather than works, for the call.
func (ln *line) giveUp() {
	if ln.cancel != nil {
		ln.cancel()
	}
}
