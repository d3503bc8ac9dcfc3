package headgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// tolerated is how many failures in a row open the breaker.
	tolerated = 5
	// firstProbe is when the first PING is sent, and lastProbe the longest pause.
	firstProbe = 500 * time.Millisecond
	lastProbe  = 2 * time.Second
)

// breaker decides whether the server is asked.
type breaker struct {
	open     atomic.Bool
	failures atomic.Int32 // in a row
}

// failure is why the server did not decide a call.
type failure struct {
	cause error
	known bool // nothing was charged
	reply bool // the server answered, with an error
}

func (f *failure) Error() string { return f.cause.Error() }

func (f *failure) Unwrap() error { return f.cause }

var errAway = &failure{cause: errors.New("headgate: the server is away"), known: true}

// request sends a command unless the breaker is open, and hands the reply to read. The
// error is a *failure if the failure policy is to decide.
func (c *Client) request(ctx context.Context, within time.Duration, args []any, read func(reply any) error) error {
	if c.closed.Load() {
		return ErrClosed
	}
	if c.breaker.open.Load() {
		return errAway
	}
	err := c.exchange(ctx, within, args, read)
	var f *failure
	if errors.As(err, &f) {
		c.failed(f)
	} else if err == nil || ctx.Err() == nil {
		c.succeeded()
	}
	if mistake(err) {
		c.counts.mistakes.Add(1)
	}
	return err
}

// exchange sends a command, once more after CLUSTERDOWN, and waits so long for the reply.
func (c *Client) exchange(ctx context.Context, within time.Duration, args []any, read func(reply any) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reply, err := c.try(own, args)
	if err != nil && code(err) == "CLUSTERDOWN" && own.Err() == nil { // it changed nothing
		reply, err = c.try(own, args)
	}
	if err == nil {
		if err = read(reply); err != nil {
			return &failure{cause: err}
		}
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if own.Err() != nil {
		return &failure{cause: ErrTimeout}
	}
	return sort(err)
}

// try sends a command. A Doer that does not heed its context does not hold the caller up.
func (c *Client) try(ctx context.Context, args []any) (any, error) {
	type answer struct {
		reply any
		err   error
	}
	done := make(chan answer, 1)
	c.sent.Add(1)
	go func() {
		reply, err := c.do.Do(ctx, args...)
		done <- answer{reply, err}
	}()
	select {
	case a := <-done:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// code returns the code that an error of the server begins with, such as WRONGTYPE.
func code(err error) string {
	word, _, _ := strings.Cut(err.Error(), " ")
	if word == "EOF" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return ""
	}
	return word
}

// mistake reports whether an error is the server's answer to a mistake of the caller.
func mistake(err error) bool {
	if err == nil || errors.As(err, new(*failure)) {
		return false
	}
	switch code(err) {
	case "ERR": // but not of another server's port, nor of a server that is full
		return !strings.HasPrefix(err.Error(), "ERR unknown command") && !strings.HasPrefix(err.Error(), "ERR max number of clients")
	case "WRONGTYPE", "NOPOLICY", "IDCONFLICT", "NOHOLD":
		return true
	}
	return false
}

// sort returns an error of a Doer as it is if it is the caller's mistake, or else as a
// failure.
func sort(err error) error {
	if mistake(err) {
		return err
	}
	f := &failure{cause: err, reply: true, known: true}
	switch code(err) {
	case "UNCERTAIN":
		f.known = false
	case "":
		var op *net.OpError
		f.reply = false
		f.known = errors.Is(err, ErrNotSent) || errors.As(err, &op) && op.Op == "dial"
	}
	return f
}

// succeeded notes that the server answered.
func (c *Client) succeeded() {
	if c.breaker.open.Load() {
		return // only a probe closes it
	}
	if c.breaker.failures.Load() != 0 {
		c.breaker.failures.Store(0)
	}
	c.chargeBack()
}

// failed notes a failure, and opens the breaker at the last one that is tolerated.
func (c *Client) failed(f *failure) {
	c.counts.failures.Add(1)
	if c.breaker.failures.Add(1) < tolerated || c.closed.Load() || !c.breaker.open.CompareAndSwap(false, true) {
		return
	}
	c.counts.opened.Add(1)
	c.log().Warn("headgate: the server does not answer, failure policies decide", "error", f.cause)
	go c.probe(f.cause)
}

// probe asks whether the server is back, and closes the breaker then.
func (c *Client) probe(last error) {
	began := time.Now()
	for pause := firstProbe; ; pause = min(2*pause, lastProbe) {
		timer := time.NewTimer(time.Duration(float64(pause) * (0.8 + 0.4*c.random())))
		select {
		case <-timer.C:
		case <-c.closing:
			timer.Stop()
			return
		}
		err := c.exchange(context.Background(), c.options.Timeout, []any{"PING"}, func(reply any) error {
			if s := text(reply); s != "PONG" {
				return fmt.Errorf("headgate: the reply to PING is %q", s)
			}
			return nil
		})
		if err == nil {
			break
		}
		last = err
	}
	c.breaker.failures.Store(0)
	c.breaker.open.Store(false)
	c.log().Info("headgate: the server answers again", "away", time.Since(began).Round(time.Millisecond), "last-error", last)
	c.chargeBack()
}

// mistakesTold is how often the log is told of mistakes, at most.
const mistakesTold = time.Minute

// Despite is for a service that goes on although its limiter is configured wrongly, such as
// middleware. It takes what Allow, Peek or Check returned. If the server answered with an
// error, it returns what OnFailure decided instead, and tells the log, once a minute at most.
func (c *Client) Despite(d Decision, err error) (Decision, error) {
	if d.Source != Fallback || !mistake(err) {
		return d, err
	}
	now := max(c.now(), 1)
	if last := c.counts.told.Load(); (last == 0 || now-instant(last) >= mistakesTold) && c.counts.told.CompareAndSwap(last, int64(now)) {
		c.log().Error("headgate: the limiter is configured wrongly, failure policies decide", "error", err)
	}
	return d, nil
}

func (c *Client) log() *slog.Logger {
	if c.options.Logger != nil {
		return c.options.Logger
	}
	return slog.Default()
}
