package headgate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// A scenario of clients/conformance: its README has the form.
type scenario struct {
	Name    string `json:"name"`
	Options struct {
		Timeout   int64 `json:"timeout_ms"`
		Processes int   `json:"processes"`
		Leases    bool  `json:"leases"`
		LeaseTTL  int64 `json:"lease_ttl_ms"`
	} `json:"options"`
	Steps []step `json:"steps"`

	// A trace has these instead of steps.
	Limit  *limit              `json:"limit"`
	Calls  [][]json.RawMessage `json:"calls"`
	Server [][]json.RawMessage `json:"server"`
	Close  int64               `json:"close_ms"`
}

type step struct {
	At        int64                      `json:"at_ms"`
	Call      *call                      `json:"call"`
	Server    []exchange                 `json:"server"`
	Want      map[string]json.RawMessage `json:"want"`
	WantError bool                       `json:"want_error"`
	State     string                     `json:"state"`
}

type exchange struct {
	Expect []string        `json:"expect"`
	Reply  json.RawMessage `json:"reply"`
	Error  string          `json:"error"`
	Fail   string          `json:"fail"`
}

type limit struct {
	Units     int64              `json:"units"`
	Period    int64              `json:"period_ms"`
	Algorithm string             `json:"algorithm"`
	Burst     int64              `json:"burst"`
	OnFailure headgate.OnFailure `json:"-"`
	On        string             `json:"on_failure"`
	Leased    *bool              `json:"leased"`
}

type call struct {
	Verb  string `json:"verb"`
	Key   string `json:"key"`
	Limit *limit `json:"limit"`
	Cost  *int64 `json:"cost"`

	AtMost int64 `json:"at_most_ms"`
	Limits []struct {
		Key   string `json:"key"`
		Limit limit  `json:"limit"`
		Cost  *int64 `json:"cost"`
	} `json:"limits"`
	Policy struct {
		Name      string `json:"name"`
		OnFailure string `json:"on_failure"`
		Limit     *limit `json:"limit"`
	} `json:"policy"`
	Attributes map[string]string `json:"attributes"`
	ID         string            `json:"id"`
	TTL        int64             `json:"ttl_ms"`
	Slots      int64             `json:"slots"`
	OnFailure  string            `json:"on_failure"`
	As         string            `json:"as"`
	Of         string            `json:"of"`
}

func onFailure(s string) headgate.OnFailure {
	return headgate.OnFailure(max(slices.Index([]string{"local", "open", "closed"}, s), 0))
}

func (l *limit) limit() headgate.Limit {
	if l == nil {
		return headgate.Limit{}
	}
	return headgate.Limit{
		Units: l.Units, Period: ms(l.Period), Burst: l.Burst, OnFailure: onFailure(l.On), NoLease: l.Leased != nil && !*l.Leased,
		Algorithm: headgate.Algorithm(max(slices.Index([]string{"token", "leaky", "fixed", "sliding", "log"}, l.Algorithm), 0)),
	}
}

func cost(c *int64) int64 {
	if c == nil {
		return 1
	}
	return *c
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// scripted is a server that answers as a step says.
type scripted struct {
	t  *testing.T
	mu sync.Mutex
	to []exchange
}

func (s *scripted) Do(ctx context.Context, args ...any) (any, error) {
	command := make([]string, len(args))
	for i, a := range args {
		command[i] = fmt.Sprint(a)
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.to, func(e exchange) bool {
		return slices.EqualFunc(e.Expect, command, func(want, is string) bool { return want == "*" || want == is })
	})
	if i < 0 {
		s.t.Errorf("sent %q, expected %q", command, s.to)
		s.mu.Unlock()
		return nil, errors.New("ERR not expected")
	}
	e := s.to[i]
	s.to = slices.Delete(s.to, i, i+1)
	s.mu.Unlock()
	switch e.Fail {
	case "refused":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case "broken":
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
	case "timeout":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if e.Error != "" {
		return nil, errors.New(e.Error)
	}
	return reply(s.t, e.Reply), nil
}

// reply returns a value as a client library does.
func reply(t *testing.T, raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var value func(v any) any
	value = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				t.Fatal(err)
			}
			return n
		case []any:
			for i := range v {
				v[i] = value(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = value(v[k])
			}
		}
		return v
	}
	return value(v)
}

// player runs a scenario.
type player struct {
	t      *testing.T
	client *headgate.Client
	server *scripted
	holds  map[string]*headgate.Reservation
	slots  map[string]*headgate.Slot
}

func TestConformance(t *testing.T) {
	files, err := filepath.Glob("../conformance/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		var scenarios []scenario
		if err := d.Decode(&scenarios); err != nil {
			t.Fatal(file, err)
		}
		for _, s := range scenarios {
			t.Run(filepath.Base(file)+"/"+s.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if s.Limit != nil {
						replay(t, s)
					} else {
						play(t, s)
					}
				})
			})
		}
	}
}

func play(t *testing.T, s scenario) {
	p := &player{t: t, server: &scripted{t: t}, holds: make(map[string]*headgate.Reservation), slots: make(map[string]*headgate.Slot)}
	o := headgate.Options{Timeout: ms(s.Options.Timeout), Processes: s.Options.Processes, Logger: slog.New(slog.DiscardHandler)}
	if !s.Options.Leases {
		o.MaxLeases = -1
	}
	p.client = headgate.New(p.server, o)
	headgate.NoJitter(p.client)
	defer func() { _ = p.client.Close(context.Background()) }()
	from := time.Now()
	for i, st := range s.Steps {
		at := from.Add(ms(st.At))
		if time.Until(at) < 0 {
			t.Fatalf("step %d begins %v before the one before it has ended", i, -time.Until(at))
		}
		time.Sleep(time.Until(at) - time.Nanosecond) // what is due before belongs to the last step
		synctest.Wait()
		p.done(i)
		p.server.mu.Lock()
		p.server.to = slices.Clone(st.Server)
		p.server.mu.Unlock()
		time.Sleep(time.Until(at))
		synctest.Wait()
		if st.Call != nil {
			d, err := p.call(st.Call)
			synctest.Wait()
			if (err != nil) != st.WantError {
				t.Errorf("step %d: error %v", i, err)
			}
			p.compare(i, st.Want, d)
		}
		if is := map[bool]string{false: "closed", true: "open"}[p.client.Stats().Away]; st.State != "" && st.State != is {
			t.Errorf("step %d: the breaker is %s", i, is)
		}
	}
	p.done(len(s.Steps))
}

// done fails if something that was expected before a step was not sent.
func (p *player) done(step int) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if len(p.server.to) > 0 {
		p.t.Errorf("not sent before step %d: %q", step, p.server.to)
	}
}

func (p *player) call(c *call) (headgate.Decision, error) {
	ctx := context.Background()
	key, limit, units := c.Key, c.Limit.limit(), cost(c.Cost)
	policy := headgate.Policy{Name: c.Policy.Name, OnFailure: onFailure(c.Policy.OnFailure), Limit: c.Policy.Limit.limit()}
	switch c.Verb {
	case "allow":
		return p.client.Allow(ctx, key, limit, units)
	case "peek":
		return p.client.Peek(ctx, key, limit, units)
	case "wait":
		return p.client.Wait(ctx, key, limit, units, ms(c.AtMost))
	case "refund":
		return p.client.Refund(ctx, key, limit, units)
	case "all":
		var limits []headgate.KeyLimit
		for _, l := range c.Limits {
			limits = append(limits, headgate.KeyLimit{Key: l.Key, Limit: l.Limit.limit(), Cost: cost(l.Cost)})
		}
		return p.client.All(ctx, limits)
	case "check":
		return p.client.CheckID(ctx, policy, c.Attributes, units, c.ID)
	case "reserve":
		r, err := p.client.Reserve(ctx, policy, c.Attributes, units, ms(c.TTL))
		if err != nil {
			return headgate.Decision{}, err
		}
		p.holds[c.As] = r
		return r.Decision, nil
	case "commit":
		return p.holds[c.Of].Commit(ctx, units)
	case "cancel":
		return p.holds[c.Of].Cancel(ctx)
	case "acquire":
		s, err := p.client.Acquire(ctx, key, c.Slots, ms(c.TTL), onFailure(c.OnFailure))
		if err != nil {
			return headgate.Decision{}, err
		}
		p.slots[c.As] = s
		return s.Decision, nil
	case "release":
		return headgate.Decision{}, p.slots[c.Of].Release(ctx)
	case "reset":
		return headgate.Decision{}, p.client.Reset(ctx, key)
	case "close":
		return headgate.Decision{}, p.client.Close(ctx)
	}
	p.t.Fatalf("there is no verb %q", c.Verb)
	return headgate.Decision{}, nil
}

// up returns milliseconds, rounded up.
func up(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func (p *player) compare(step int, want map[string]json.RawMessage, d headgate.Decision) {
	is := map[string]any{
		"allowed": d.Allowed, "limit": d.Limit, "remaining": d.Remaining, "retry_after_ms": up(d.RetryAfter), "reset_after_ms": up(d.ResetAfter),
		"delay_ms": up(d.Delay), "source": d.Source.String(), "degraded": d.Degraded, "name": d.Name, "reason": d.Reason, "hold": d.Hold,
	}
	for field, raw := range want {
		if field != "limits" {
			p.field(step, field, raw, is[field])
			continue
		}
		var limits map[string]map[string]json.RawMessage
		if err := json.Unmarshal(raw, &limits); err != nil {
			p.t.Fatal(err)
		}
		if len(limits) != len(d.Limits) {
			p.t.Errorf("step %d: limits %v", step, d.Limits)
		}
		for name, want := range limits {
			l := d.Limits[name]
			is := map[string]any{
				"allowed": l.Allowed, "limit": l.Limit, "remaining": l.Remaining, "retry_after_ms": up(l.RetryAfter), "reset_after_ms": up(l.ResetAfter),
				"delay_ms": up(l.Delay), "cost": l.Cost, "mode": l.Mode, "status": int64(l.Status), "window_ms": up(l.Window),
			}
			for field, raw := range want {
				p.field(step, name+"."+field, raw, is[field])
			}
		}
	}
}

func (p *player) field(step int, name string, raw json.RawMessage, is any) {
	want := reply(p.t, raw)
	if want == nil {
		want = ""
	}
	if !reflect.DeepEqual(want, is) {
		p.t.Errorf("step %d: %s is %v, not %v", step, name, is, want)
	}
}

// recorded is a server that answers as a trace says.
type recorded struct {
	t     *testing.T
	began time.Time
	mu    sync.Mutex
	to    [][]json.RawMessage
	ids   map[string]string // of *1 and so on
}

func (r *recorded) Do(ctx context.Context, args ...any) (any, error) {
	command := make([]string, len(args))
	for i, a := range args {
		command[i] = fmt.Sprint(a)
	}
	now := time.Since(r.began)
	r.mu.Lock()
	i := slices.IndexFunc(r.to, func(e []json.RawMessage) bool {
		var at int64
		var want []string
		decode(r.t, e[0], &at)
		decode(r.t, e[1], &want)
		return ms(at) == now && slices.EqualFunc(want, command, func(want, is string) bool {
			return want == is || want[0] == '*' && (r.ids[want] == is || r.ids[want] == "")
		})
	})
	if i < 0 {
		r.t.Errorf("sent %q at %v, expected %q", command, now, r.to[:min(3, len(r.to))])
		r.mu.Unlock()
		return nil, errors.New("ERR not expected")
	}
	e := r.to[i]
	r.to = slices.Delete(r.to, i, i+1)
	if i := slices.Index(command, "ID"); i > 0 {
		var want []string
		decode(r.t, e[1], &want)
		r.ids[want[i+1]] = command[i+1]
	}
	r.mu.Unlock()
	var delay *int64
	decode(r.t, e[2], &delay)
	if delay == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(ms(*delay))
	answer := reply(r.t, e[3])
	if m, ok := answer.(map[string]any); ok {
		return nil, errors.New(m["error"].(string))
	}
	return answer, nil
}

func decode(t *testing.T, raw json.RawMessage, to any) {
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatal(err)
	}
}

// replay makes the calls of a trace, and compares decisions and commands.
func replay(t *testing.T, s scenario) {
	r := &recorded{t: t, began: time.Now(), to: slices.Clone(s.Server), ids: make(map[string]string)}
	c := headgate.New(r, headgate.Options{Timeout: ms(s.Options.Timeout), LeaseTTL: ms(s.Options.LeaseTTL), Logger: slog.New(slog.DiscardHandler)})
	var callers sync.WaitGroup
	for _, call := range s.Calls {
		var at, cost int64
		decode(t, call[0], &at)
		decode(t, call[1], &cost)
		time.Sleep(time.Until(r.began.Add(ms(at))))
		synctest.Wait()
		callers.Go(func() {
			d, err := c.Allow(context.Background(), "k", s.Limit.limit(), cost)
			got, _ := json.Marshal([]any{at, cost, time.Since(r.began).Milliseconds(), d.Allowed, d.Source.String(), d.Remaining, up(d.RetryAfter)})
			want, _ := json.Marshal(call)
			if err != nil || string(got) != string(want) {
				t.Errorf("call %s, not %s (%v)", got, want, err)
			}
		})
		synctest.Wait()
	}
	time.Sleep(time.Until(r.began.Add(ms(s.Close))))
	synctest.Wait()
	callers.Wait()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if len(r.to) > 0 {
		t.Errorf("not sent: %q", r.to[:min(3, len(r.to))])
	}
}
