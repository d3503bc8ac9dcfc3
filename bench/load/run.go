package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recorders is how many recorders the connections share: enough that readers
// on a few cores seldom meet, few enough to stay in the cache.
const recorders = 4

// errAllBroken is returned when no connection was left at the end.
var errAllBroken = errors.New("every connection failed")

// run is the state of one Run.
type run struct {
	cfg     Config
	clients []*client
	recs    [recorders]*recorder
	start   time.Time     // of the first command
	measure time.Duration // since start, when the measurement begins
	end     time.Duration // since start, when the last command is due
	stopped time.Duration // since start, when the last connection was done
	unsent  int64
	drawn   atomic.Uint64 // keys drawn by Sequential
	taken   atomic.Int64  // commands begun by a closed loop

	interrupted atomic.Bool // nobody waits for replies any more
}

// Run sends the load that cfg describes and waits for its end, or for ctx. A
// run cut short by ctx, or left without connections, returns what it measured
// with its error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, measure: cfg.Warmup, end: cfg.Warmup + cfg.Duration}
	for i := range r.recs {
		r.recs[i] = &recorder{latency: newHistogram()}
	}
	defer r.close()
	if err := r.connect(ctx); err != nil {
		return nil, err
	}

	r.start = time.Now()
	for _, c := range r.clients {
		if err := r.setDeadlines(c.conn); err != nil {
			return nil, fmt.Errorf("set deadlines: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, r.interrupt)
	defer stop()

	collected := make(chan *Result)
	finished := make(chan struct{})
	go func() { collected <- r.collect(finished) }()
	if cfg.Rate > 0 {
		r.openLoop(ctx)
	} else {
		r.closedLoop(ctx)
	}
	r.stopped = time.Since(r.start)
	close(finished)
	res := <-collected
	return res, r.verdict(ctx)
}

// writeGrace is how long after the end a last write may take.
const writeGrace = 100 * time.Millisecond

// setDeadlines makes sure that no connection outlives the run. An open loop
// ends its reads itself, after the drain.
func (r *run) setDeadlines(conn net.Conn) error {
	if err := conn.SetWriteDeadline(r.start.Add(r.end + writeGrace)); err != nil {
		return err
	}
	if r.cfg.Rate > 0 {
		return nil
	}
	return conn.SetReadDeadline(r.start.Add(r.end + r.cfg.Drain))
}

// connect opens all connections.
func (r *run) connect(ctx context.Context) error {
	cmd := compile(r.cfg.Command)
	for i := range r.cfg.Clients {
		conn, err := dial(ctx, &r.cfg)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, r.cfg.Clients, err)
		}
		r.clients = append(r.clients, &client{
			conn:    conn,
			cmd:     &cmd,
			key:     picker(&r.cfg, i, &r.drawn),
			verdict: verdictOf(r.cfg.Command[0]),
			rec:     r.recs[i%recorders],
			pause:   shortestPause,
		})
	}
	return nil
}

func (r *run) close() {
	for _, c := range r.clients {
		c.conn.Close()
	}
}

// interrupt wakes every connection's reader and writer.
func (r *run) interrupt() {
	r.interrupted.Store(true)
	for _, c := range r.clients {
		c.mu.Lock()
		_ = c.conn.SetDeadline(time.Now()) // fails only on a closed connection, which is as good
		c.mu.Unlock()
	}
}

func (r *run) verdict(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, c := range r.clients {
		if c.broken == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", errAllBroken, r.clients[0].broken)
}

// measuring says whether something that happened d after start counts.
func (r *run) measuring(d time.Duration) bool {
	return d >= r.measure && d < r.end
}

// closedLoop keeps every connection busy until the end.
func (r *run) closedLoop(ctx context.Context) {
	var wg sync.WaitGroup
	for _, c := range r.clients {
		wg.Go(func() {
			for {
				err := r.pingPong(ctx, c)
				if err == nil || ctx.Err() != nil {
					return
				}
				c.fail(c.conn, err)
				if !r.reconnect(ctx, c) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// pingPong is one connection of a closed loop.
func (r *run) pingPong(ctx context.Context, c *client) error {
	var out []byte
	for ctx.Err() == nil {
		batch := int64(r.cfg.Pipeline)
		if r.cfg.Count > 0 {
			batch = min(batch, r.cfg.Count-r.taken.Add(batch)+batch)
		}
		if batch <= 0 {
			return nil
		}
		out = c.appendCommands(out[:0], batch)
		sent := time.Since(r.start)
		if sent >= r.end {
			return nil
		}
		c.sent.Add(batch)
		if _, err := c.conn.Write(out); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil // the end; the batch counts as unanswered
			}
			return err
		}
		for missing := batch; missing > 0; {
			if err := c.fill(); err != nil {
				return err
			}
			n, err := r.receive(c, func(int64) time.Duration { return sent })
			if err != nil {
				return err
			}
			missing -= n
		}
	}
	return nil
}

// receive scans and records the replies in c's buffer. due tells when the
// command with a given number, counted from 0 on this connection, was due.
func (r *run) receive(c *client, due func(k int64) time.Duration) (int64, error) {
	now := time.Since(r.start)
	counted := r.measuring(now)
	k, lost := c.answered.Load(), c.lost.Load()
	first := k
	c.rec.mu.Lock()
	defer c.rec.mu.Unlock()
	defer func() { c.answered.Store(k) }()
	var same int64 // commands in a row that were due at one instant
	var at time.Duration
	for {
		rep, ok, err := c.next()
		if err != nil {
			return k - first, err
		}
		if !ok {
			break
		}
		if counted {
			c.rec.tally(rep, c.verdict)
		}
		if d := due(k + lost); same > 0 && d == at {
			same++
		} else {
			r.record(c.rec, at, now, same)
			at, same = d, 1
		}
		k++
	}
	r.record(c.rec, at, now, same)
	if k > first {
		c.pause = shortestPause
	}
	return k - first, nil
}

// record notes the latency of n commands that were due at the instant `due`.
// The measurement is of the commands due in it, whenever they are answered.
// Must be called with rec.mu held.
func (r *run) record(rec *recorder, due, now time.Duration, n int64) {
	if n > 0 && r.measuring(due) {
		rec.observe(now-due, n)
	}
}

// collect sums up the recorders once a second until finished is closed.
func (r *run) collect(finished <-chan struct{}) *Result {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var sum counts
	total, second := newHistogram(), newHistogram()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-finished:
			running = false
		}
		second.Reset()
		for _, rec := range r.recs {
			rec.collect(second, &sum)
		}
		total.Merge(second)
	}
	return r.result(total, &sum)
}

func (r *run) result(h *hdrhistogram.Histogram, sum *counts) *Result {
	// A run that was cut short is measured over the time it had.
	measured := min(r.stopped, r.end) - r.measure
	res := &Result{
		Command:  strings.Join(r.cfg.Command, " "),
		Clients:  r.cfg.Clients,
		Pipeline: r.cfg.Pipeline,
		Keys:     r.cfg.Keys,
		Duration: measured,
		Offered:  r.cfg.Rate,
		Replies:  sum.replies,
		Allowed:  sum.allowed,
		Denied:   sum.denied,
		Errors:   sum.errors,
		Causes:   sum.causes,
		Unsent:   r.unsent,
		Latency:  summarize(h),
	}
	if measured > 0 {
		res.Rate = float64(sum.replies) / measured.Seconds()
	}
	for _, c := range r.clients {
		res.Unanswered += c.sent.Load() - c.answered.Load()
	}
	return res
}
