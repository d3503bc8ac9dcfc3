package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/resp"
)

// Placeholders of a stream's commands, each as wide as the 12 digits that take
// its place.
const (
	streamKey  = load.Placeholder // a random number below keys
	streamTime = "__time_now__"   // counts the steps
	streamPast = "__time_old__"   // so many steps ago
	// streamGroup is the key's number modulo groups: what many keys share.
	streamGroup = "__group_no__"
	streamLeft  = "__ms_left___" // milliseconds until the stream's end
)

// streamEpoch is the first time of a stream: times have 12 digits.
const streamEpoch = 500_000_000_000

// stream is a closed loop that takes one step after the other. A step is one or several
// commands about one random key; redis-benchmark sends one command only.
type stream struct {
	p        *process
	commands []streamCommand
	keys     uint64
	past     int64        // steps between streamPast and streamTime
	groups   uint64       // of keys; see streamGroup
	conns    int          // connections
	pipeline int          // commands that a connection writes at once
	apart    bool         // no two connections have a key
	end      time.Time    // see streamLeft
	steps    atomic.Int64 // so far, over all runs
}

// streamCommand is a command in RESP with the places of its placeholders.
type streamCommand struct {
	raw   []byte
	holes []hole
}

type hole struct {
	at   int
	kind string // the placeholder
}

func newStream(p *process, commands [][]string, keys uint64, past int64) *stream {
	s := &stream{p: p, keys: keys, past: past, groups: 1, conns: clients, pipeline: streamPipeline}
	for _, args := range commands {
		c := streamCommand{raw: resp.AppendCommand(nil, args)}
		for _, kind := range []string{streamKey, streamTime, streamPast, streamGroup, streamLeft} {
			for at := 0; ; at += len(kind) {
				i := bytes.Index(c.raw[at:], []byte(kind))
				if i < 0 {
					break
				}
				at += i
				c.holes = append(c.holes, hole{at, kind})
			}
		}
		s.commands = append(s.commands, c)
	}
	return s
}

// cost is what a run of a stream measured.
type cost struct {
	Rate float64 `json:"per_second"`
	// CPU is the server's processor time per command, all threads.
	CPU time.Duration `json:"server_cpu_ns"`
}

// run sends commands for the time d. The first error reply ends it.
func (s *stream) run(ctx context.Context, d time.Duration) (cost, error) {
	c, err := s.p.driven(ctx, d, s.conns, func(ctx context.Context, i int) (int64, error) { return s.connection(ctx, uint64(i)) })
	if err != nil {
		err = fmt.Errorf("%s: %w", s.p.name, err)
	}
	return c, err
}

// driven tells what it costs to answer conns connections for the time d. Each returns
// how much it had done when ctx ended; an error of one ends it for all.
func (p *process) driven(ctx context.Context, d time.Duration, conns int, connection func(ctx context.Context, i int) (int64, error)) (cost, error) {
	before, err := p.cpu()
	if err != nil {
		return cost{}, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var done atomic.Int64
	failures := make(chan error, conns)
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			n, err := connection(ctx, i)
			done.Add(n)
			if err != nil {
				failures <- err
				cancel()
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	select {
	case err := <-failures:
		return cost{}, err
	default:
	}
	after, err := p.cpu()
	n := max(done.Load(), 1)
	return cost{Rate: float64(n) / took.Seconds(), CPU: (after - before) / time.Duration(n)}, err
}

// fill takes one step about each key, in order.
func (s *stream) fill(ctx context.Context) error {
	nc, err := net.Dial("tcp", s.p.addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	written := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(nc, 64<<10)
		var step []byte
		for key := range s.keys {
			step = step[:0]
			for i := range s.commands {
				step = s.append(step, &s.commands[i], key, streamEpoch)
			}
			if _, err := out.Write(step); err != nil {
				written <- err
				return
			}
		}
		written <- out.Flush()
	}()
	in := replyCounter{nc: nc, buf: make([]byte, 64<<10)}
	for range s.keys {
		if err := in.take(len(s.commands)); err != nil {
			return fmt.Errorf("%s: %w", s.p.name, errors.Join(err, ctx.Err()))
		}
	}
	return <-written
}

// streamPipeline is how many commands a connection writes at once, by default.
const streamPipeline = 16

// connection sends until ctx ends, and returns how many replies came.
func (s *stream) connection(ctx context.Context, seed uint64) (replies int64, err error) {
	nc, err := net.Dial("tcp", s.p.addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	rnd := rand.New(rand.NewPCG(uint64(s.steps.Load()), seed))
	in := replyCounter{nc: nc, buf: make([]byte, 16<<10)}
	var out []byte
	var key, now uint64
	for next := 0; ctx.Err() == nil; {
		out = out[:0]
		for range s.pipeline {
			if next == 0 {
				key, now = rnd.Uint64N(s.keys), streamEpoch+uint64(s.steps.Add(1))
				if n := uint64(s.conns); s.apart {
					key = key/n*n + seed
				}
			}
			out = s.append(out, &s.commands[next], key, now)
			next = (next + 1) % len(s.commands)
		}
		if err := nc.SetDeadline(time.Now().Add(askTimeout)); err != nil {
			return replies, err
		}
		if _, err := nc.Write(out); err != nil {
			return replies, err
		}
		if err := in.take(s.pipeline); err != nil {
			return replies, err
		}
		replies += int64(s.pipeline)
	}
	return replies, nil
}

func (s *stream) append(dst []byte, c *streamCommand, key, now uint64) []byte {
	start := len(dst)
	dst = append(dst, c.raw...)
	for _, h := range c.holes {
		n := key
		switch h.kind {
		case streamTime:
			n = now
		case streamPast:
			n = now - uint64(s.past)
		case streamGroup:
			n = key % s.groups
		case streamLeft:
			n = uint64(time.Until(s.end).Milliseconds())
		}
		load.PutDigits(dst[start+h.at:start+h.at+len(h.kind)], n)
	}
	return dst
}

// replyCounter reads replies without looking into them.
type replyCounter struct {
	nc   net.Conn
	buf  []byte
	r, w int // what is unread is buf[r:w]
}

// take reads n replies; one that is an error is an error.
func (c *replyCounter) take(n int) error {
	for n > 0 {
		size, err := resp.ReplyLen(c.buf[c.r:c.w], len(c.buf))
		if err != nil {
			return err
		}
		if size > 0 {
			if c.buf[c.r] == '-' {
				return fmt.Errorf("error reply %q", c.buf[c.r:c.r+size])
			}
			c.r += size
			n--
			continue
		}
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		if c.w == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		got, err := c.nc.Read(c.buf[c.w:])
		if err != nil {
			return err
		}
		c.w += got
	}
	return nil
}
