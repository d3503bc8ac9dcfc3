package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Transport is an http.RoundTripper that spaces requests to a host by what its answers say:
// Retry-After, RateLimit with RateLimit-Policy, and X-RateLimit-Remaining with
// X-RateLimit-Reset. So a client slows down before the host denies. It sends no request a
// second time. The zero value is ready to use.
type Transport struct {
	// Base sends the requests: http.DefaultTransport if it is not set.
	Base http.RoundTripper
	// MaxWait is how long a request waits at most: a minute if it is not set. A request that
	// would wait longer, or beyond the deadline of its context, is a *WaitError at once.
	MaxWait time.Duration

	mu    sync.Mutex
	hosts map[string]*pace
}

// WaitError says for how long a host wants no request.
type WaitError struct {
	Host string
	Wait time.Duration
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("headgate: %s wants no request for %v", e.Host, e.Wait.Round(time.Millisecond))
}

// pace is what is known of a host.
type pace struct {
	next  time.Time     // no request before
	every time.Duration // between two requests; 0 if there is no need
	until time.Time     // when that is forgotten
}

const (
	maxHosts       = 1000
	defaultMaxWait = time.Minute
)

// RoundTrip waits until the host may be asked, and sends a request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.wait(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	answer, err := base.RoundTrip(r)
	if err == nil {
		t.learn(r.URL.Host, answer)
	}
	return answer, err
}

func (t *Transport) wait(r *http.Request) error {
	now := time.Now()
	t.mu.Lock()
	p := t.hosts[r.URL.Host]
	if p == nil {
		t.mu.Unlock()
		return nil
	}
	if p.every > 0 && now.After(p.until) {
		p.every = 0
	}
	wait := p.next.Sub(now)
	most := t.MaxWait
	if most <= 0 {
		most = defaultMaxWait
	}
	if end, ok := r.Context().Deadline(); ok {
		most = min(most, end.Sub(now))
	}
	if wait > most {
		t.mu.Unlock()
		return &WaitError{Host: r.URL.Host, Wait: wait}
	}
	// Others wait behind this one.
	p.next = now.Add(max(wait, 0) + jitter(p.every))
	t.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// jitter makes a time up to a fifth longer.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/5)
}

// learn takes what an answer says.
func (t *Transport) learn(host string, answer *http.Response) {
	now := time.Now()
	s := read(answer.Header, now)
	if answer.StatusCode != http.StatusTooManyRequests && answer.StatusCode != http.StatusServiceUnavailable {
		s.retry = 0
	}
	if s.retry == 0 && !s.known {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.hosts[host]
	if p == nil {
		if t.hosts == nil {
			t.hosts = make(map[string]*pace)
		}
		for name := range t.hosts { // any one
			if len(t.hosts) < maxHosts {
				break
			}
			delete(t.hosts, name)
		}
		p = new(pace)
		t.hosts[host] = p
	}
	p.every = 0
	if s.known {
		// While more than a fifth is left, there is no hurry.
		if s.limit == 0 || s.left*5 <= s.limit {
			p.every, p.until = s.every(), now.Add(s.window)
		}
		if s.left == 0 && s.retry == 0 {
			s.retry = s.every()
		}
	}
	if s.retry > 0 {
		if next := now.Add(jitter(s.retry)); next.After(p.next) {
			p.next = next
		}
	} else if next := now.Add(p.every); p.every > 0 && next.After(p.next) {
		p.next = next
	}
}

// said is what the header fields of an answer say.
type said struct {
	known  bool // left and window are known
	left   int64
	limit  int64         // 0 if it is not known
	window time.Duration // in which limit comes in, or left may be used
	retry  time.Duration
}

// every returns the time between two requests that the limit lasts with.
func (s *said) every() time.Duration {
	if s.limit > 0 {
		return s.window / time.Duration(s.limit)
	}
	return s.window / time.Duration(s.left+1)
}

func read(h http.Header, now time.Time) (s said) {
	if v := h.Get("Retry-After"); v != "" {
		if n, err := strconv.ParseInt(v, 10, 32); err == nil {
			s.retry = time.Duration(n) * time.Second
		} else if at, err := http.ParseTime(v); err == nil {
			s.retry = max(at.Sub(now), 0)
		}
	}
	// Of several limits the one with the least left counts.
	policies := items(h, "RateLimit-Policy")
	for name, limit := range items(h, "RateLimit") {
		left, ok := limit["r"]
		if !ok || s.known && left >= s.left {
			continue
		}
		p := policies[name]
		switch {
		case p["w"] > 0 && p["q"] > 0:
			s = said{true, left, p["q"], time.Duration(p["w"]) * time.Second, s.retry}
		case limit["t"] > 0:
			s = said{true, left, p["q"], time.Duration(limit["t"]) * time.Second, s.retry}
		}
	}
	if s.known {
		return s
	}
	left, err := strconv.ParseInt(h.Get("X-RateLimit-Remaining"), 10, 64)
	reset, err2 := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || err2 != nil || left < 0 {
		return s
	}
	wait := time.Duration(min(reset, 1<<31)) * time.Second
	if reset > 1<<30 { // a time, not a number of seconds
		wait = time.Unix(reset, 0).Sub(now)
	}
	s.known, s.left, s.window = true, left, max(wait, 0)
	return s
}

// items returns the parameters of a list of structured fields, by name. Those that are not
// whole numbers are left out.
func items(h http.Header, field string) map[string]map[string]int64 {
	all := make(map[string]map[string]int64)
	for item := range strings.SplitSeq(strings.Join(h.Values(field), ","), ",") {
		name, rest, _ := strings.Cut(strings.TrimSpace(item), ";")
		if name == "" {
			continue
		}
		parameters := make(map[string]int64)
		for p := range strings.SplitSeq(rest, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 && n < 1<<31 {
				parameters[key] = n
			}
		}
		all[name] = parameters
	}
	return all
}
