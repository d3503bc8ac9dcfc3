// Command asker asks for one limit by Headgate's Go client. Package internal/askers
// starts it and has its configuration.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/internal/askers"
)

func main() {
	var c askers.Config
	err := errors.New("usage: asker CONFIG")
	if len(os.Args) == 2 {
		err = json.Unmarshal([]byte(os.Args[1]), &c)
	}
	var r askers.Result
	if err == nil {
		r, err = run(&c, os.Stdin)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run asks until c.For is over, or control ends. Each line of control is the units of the
// limit from then on.
func run(c *askers.Config, control io.Reader) (r askers.Result, err error) {
	log, err := askers.NewWriter(c.Log)
	if err != nil {
		return r, err
	}
	c.TTL = cmp.Or(c.TTL, 2*time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var units atomic.Int64
	units.Store(c.Units)
	if c.For > 0 {
		time.AfterFunc(c.For, cancel)
	} else {
		go func() {
			defer cancel()
			for in := bufio.NewScanner(control); in.Scan(); {
				n, err := strconv.ParseInt(in.Text(), 10, 64)
				if err != nil {
					return
				}
				units.Store(n)
			}
		}()
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range max(c.Clients, 1) {
		wg.Go(func() {
			a := &asker{Config: c, log: log, units: &units}
			e := a.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			r.Asked, r.Admitted, r.Errors = r.Asked+a.Asked, r.Admitted+a.Admitted, r.Errors+a.Errors
			r.Sent, r.Local, r.Worst = r.Sent+a.Sent, r.Local+a.Local, max(r.Worst, a.Worst)
		})
	}
	wg.Wait()
	return r, err
}

// asker is one client.
type asker struct {
	*askers.Config
	askers.Result
	log   *askers.Writer
	units *atomic.Int64
	conn  *redis.Client
	node  atomic.Int64
}

func (a *asker) run(ctx context.Context) error {
	a.node.Store(rand.Int64N(int64(len(a.Nodes))))
	a.conn = redis.NewClient(&redis.Options{
		Addr: a.Nodes[0], MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 4,
		DialTimeout: 200 * time.Millisecond, ReadTimeout: 500 * time.Millisecond,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, a.Nodes[int(a.node.Add(1))%len(a.Nodes)])
		},
	})
	defer a.conn.Close()
	o := headgate.Options{LeaseTTL: a.TTL, Timeout: 500 * time.Millisecond}
	if a.Scheme == askers.Plain {
		o.MaxLeases = -1
	}
	client := headgate.New(headgate.DoerFunc(a.do), o)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var before headgate.Stats
	warm := time.Now().Add(a.Warm)
	rate, lasts := a.RateAt(askers.Now())
	changes := time.Now().Add(lasts)
	for at := time.Now(); ctx.Err() == nil; {
		now := time.Now()
		if !now.Before(changes) {
			rate, lasts = a.RateAt(askers.Now())
			at, changes = now, now.Add(lasts)
		}
		if !warm.IsZero() && !now.Before(warm) {
			warm, before, a.Result = time.Time{}, client.Stats(), askers.Result{}
		}
		at = at.Add(time.Duration(rnd.ExpFloat64() / rate * float64(time.Second)))
		if at.After(changes) {
			time.Sleep(time.Until(changes))
			continue
		}
		if wait := time.Until(at); wait > 2*time.Millisecond { // fewer wake-ups: calls come in small groups
			time.Sleep(wait)
		} else if -wait > time.Second { // it stood still: what was due meanwhile is gone
			at = time.Now()
		}
		a.call(client)
	}
	st := client.Stats()
	a.Sent, a.Local = st.Sent-before.Sent, st.Local-before.Local
	closing, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := client.Close(closing); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil // the node that it would return to is away
}

func (a *asker) call(client *headgate.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := askers.Span{From: askers.Now()}
	var d headgate.Decision
	var err error
	if a.Policy != "" {
		policy := headgate.Policy{Name: a.Policy, OnFailure: headgate.Closed, Leased: true}
		d, err = client.Check(ctx, policy, headgate.Attributes{"user": a.Key}, 1)
	} else {
		limit := headgate.Limit{Units: a.units.Load(), Period: a.Period, OnFailure: headgate.Closed}
		switch a.Windows {
		case headgate.Fixed.String():
			limit.Algorithm = headgate.Fixed
		case headgate.Sliding.String():
			limit.Algorithm = headgate.Sliding
		}
		d, err = client.Allow(ctx, a.Key, limit, 1)
	}
	s.To = askers.Now()
	if err == nil && d.Degraded {
		err = headgate.ErrTimeout
	}
	a.log.Call(s, d.Allowed, err)
	a.Asked++
	a.Worst = max(a.Worst, time.Duration(s.To-s.From))
	switch {
	case err != nil:
		a.Errors++
	case d.Allowed:
		a.Admitted++
	}
}

// do sends a command, by the scheme.
func (a *asker) do(ctx context.Context, args ...any) (any, error) {
	s := askers.Span{From: askers.Now()}
	switch args[0] {
	case "RL.LEASE":
		g := askers.Grant{Seq: option(args, "SEQ"), Held: option(args, "HELD"), Need: option(args, "NEED")}
		reply, err := a.lease(ctx, g.Need, args)
		s.To = askers.Now()
		g.Span, g.Failed = s, err != nil
		if err == nil {
			g.OK, g.Granted, g.Refill = reply[0].(int64) == 1, reply[6].(int64), reply[8].(int64)
			g.TTL, g.RefillTime = time.Duration(reply[7].(int64))*time.Millisecond, time.Duration(reply[9].(int64))*time.Millisecond
		}
		a.log.Grant(g)
		return reply, err
	case "RL.RETURN":
		if a.Scheme == askers.Textbook {
			return int64(0), nil // what it has not spent is lost
		}
		reply, err := a.conn.Do(ctx, args...).Result()
		s.To = askers.Now()
		a.log.Return(s)
		return reply, err
	}
	return a.conn.Do(ctx, args...).Result()
}

// lease asks for a lease, or for a block of the textbook's.
func (a *asker) lease(ctx context.Context, need int64, args []any) ([]any, error) {
	if a.Scheme == askers.Textbook {
		args = []any{"RL.LIMIT", args[1], args[2], args[3], "COST", max(a.Block, need)}
	}
	got, err := a.conn.Do(ctx, args...).Result()
	if err != nil {
		return nil, err
	}
	var reply []any
	switch got := got.(type) {
	case []any:
		reply = got
	case map[any]any:
		for _, name := range []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "granted", "ttl_ms", "refill", "refill_ms", "holders"} {
			reply = append(reply, got[name])
		}
	default:
		return nil, fmt.Errorf("the reply is a %T", got)
	}
	if a.Scheme == askers.Textbook {
		granted := max(a.Block, need) * reply[0].(int64)
		return append(reply[:6:6], granted, a.TTL.Milliseconds(), int64(0), int64(0), int64(1)), nil
	}
	return reply, nil
}

// option returns the number after a word, or 0.
func option(args []any, name string) int64 {
	if i := slices.Index(args, any(name)); i >= 0 {
		n, _ := args[i+1].(int64)
		return n
	}
	return 0
}
