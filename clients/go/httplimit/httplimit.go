// Package httplimit limits the requests that a server of net/http answers, and spaces those
// that a client of net/http makes.
//
// [New] returns middleware: for net/http itself, and for chi, gin, echo and others by their
// adapters of func(http.Handler) http.Handler. [Transport] is an http.RoundTripper.
package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
)

// Options say what middleware does with a request. Limit or Policy is required.
type Options struct {
	// Limit is that of each client.
	Limit headgate.Limit
	// Name is that of the limit in header fields and keys: default if it is not set. Limits
	// that differ need names that differ.
	Name string
	// Key returns who the limit counts: the address of the client if it is not set.
	Key func(*http.Request) string

	// Policy is asked instead of a limit.
	Policy headgate.Policy
	// Attributes returns what the policy knows of a request: the client's address as ip if it
	// is not set.
	Attributes func(*http.Request) headgate.Attributes

	// Cost returns the units of a request: 1 if it is not set.
	Cost func(*http.Request) int64
	// TrustedProxies are the proxies whose X-Forwarded-For is believed. An empty list that is
	// not nil says that there are none. With nil a request that has the field is answered
	// with 500: nobody knows whose address to count.
	TrustedProxies []netip.Prefix
	// MaxRetryAfter caps the field Retry-After, if it is set.
	MaxRetryAfter time.Duration
	// Backstop has a bucket per address in this process, in front of everything: ten times
	// the limit.
	Backstop bool
	// Logger is told what made an answer 500: slog.Default if it is not set.
	Logger *slog.Logger
}

type middleware struct {
	Options
	client   *headgate.Client
	policy   bool
	stands   headgate.Limit // the limit, or that of the policy
	backstop *headgate.Backstop
}

var errProxies = errors.New("headgate: a request has X-Forwarded-For, and TrustedProxies is not set: " +
	"name the addresses of your proxies, or set an empty list if there are none")

// New returns middleware that asks c about each request.
func New(c *headgate.Client, o Options) (func(http.Handler) http.Handler, error) {
	m := &middleware{Options: o, client: c, policy: o.Policy.Name != "", stands: o.Limit}
	switch {
	case m.policy == (o.Limit != headgate.Limit{}):
		return nil, errors.New("headgate: middleware needs either a limit or a policy")
	case m.policy && o.Key != nil:
		return nil, errors.New("headgate: a policy has attributes, not a key")
	}
	if m.policy {
		m.stands = o.Policy.Limit
	}
	if m.Name == "" {
		m.Name = "default"
	}
	if o.Backstop {
		if m.stands == (headgate.Limit{}) {
			return nil, errors.New("headgate: a backstop needs a limit")
		}
		m.backstop = headgate.NewBackstop(m.stands)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.admits(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}, nil
}

// admits writes the header fields of an answer. It answers a request that is not admitted.
func (m *middleware) admits(w http.ResponseWriter, r *http.Request) bool {
	d, err := m.decide(r)
	if err != nil {
		if r.Context().Err() == nil { // otherwise the client has gone
			logger := m.Logger
			if logger == nil {
				logger = slog.Default()
			}
			logger.ErrorContext(r.Context(), "headgate: a request was not decided", "path", r.URL.Path, "error", err)
		}
		answer(w, problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError})
		return false
	}
	m.fields(w.Header(), &d)
	if d.Allowed {
		return true
	}
	p := problem{Status: http.StatusTooManyRequests}
	if d.Source == headgate.Fallback && d.Limit < 0 { // closed
		p.Status = http.StatusServiceUnavailable
	}
	p.Title = http.StatusText(p.Status)
	if d.RetryAfter >= 0 {
		ms := int64((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
		p.RetryAfter = &ms
	}
	answer(w, p)
	return false
}

func (m *middleware) decide(r *http.Request) (headgate.Decision, error) {
	var address netip.Addr
	if m.backstop != nil || !m.policy && m.Key == nil || m.policy && m.Attributes == nil {
		var err error
		if address, err = m.address(r); err != nil {
			return headgate.Decision{}, err
		}
	}
	if m.backstop != nil {
		if d := m.backstop.Allow(address); !d.Allowed {
			return d, nil
		}
	}
	cost := int64(1)
	if m.Cost != nil {
		cost = m.Cost(r)
	}
	switch {
	case m.policy && m.Attributes != nil:
		return m.client.Despite(m.client.Check(r.Context(), m.Policy, m.Attributes(r), cost))
	case m.policy:
		return m.client.Despite(m.client.Check(r.Context(), m.Policy, headgate.Attributes{"ip": address.String()}, cost))
	case m.Key != nil:
		return m.client.Despite(m.client.Allow(r.Context(), m.Name+":"+m.Key(r), m.Limit, cost))
	}
	return m.client.Despite(m.client.Allow(r.Context(), m.Name+":"+headgate.AddressKey(address), m.Limit, cost))
}

// address returns that of the client. From the right, X-Forwarded-For is believed as long as
// trusted proxies have written it.
func (m *middleware) address(r *http.Request) (netip.Addr, error) {
	forwarded := r.Header.Values("X-Forwarded-For")
	if len(forwarded) > 0 && m.TrustedProxies == nil {
		return netip.Addr{}, errProxies
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("headgate: the address of a client is %q: set Key, or Attributes", r.RemoteAddr)
	}
	address := peer.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for i := len(hops) - 1; i >= 0 && m.trusts(address); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		address = hop.Unmap().WithZone("")
	}
	return address, nil
}

func (m *middleware) trusts(a netip.Addr) bool {
	for _, p := range m.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// fields writes the header fields of a decision.
func (m *middleware) fields(h http.Header, d *headgate.Decision) {
	if d.Limit >= 0 {
		name, window := d.Name, d.Limits[d.Name].Window
		if name == "" {
			name = m.Name
			if d.Source != headgate.Backstopped {
				window = m.stands.Window()
			}
		}
		name = quote(name)
		limit, remaining := strconv.FormatInt(d.Limit, 10), strconv.FormatInt(d.Remaining, 10)
		left := name + ";r=" + remaining
		wait := d.ResetAfter
		if !d.Allowed {
			wait = d.RetryAfter
		}
		if wait >= 0 {
			left += ";t=" + seconds(wait)
		}
		quota := name + ";q=" + limit
		if window > 0 && window%time.Second == 0 { // the field has whole seconds
			quota += ";w=" + seconds(window)
		}
		h.Set("RateLimit", left)
		h.Set("RateLimit-Policy", quota)
		h.Set("X-RateLimit-Limit", limit)
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", strconv.FormatInt(int64(math.Ceil(float64(time.Now().Add(d.ResetAfter).UnixMilli())/1000)), 10))
	}
	if !d.Allowed && d.RetryAfter >= 0 {
		wait := d.RetryAfter
		if m.MaxRetryAfter > 0 {
			wait = min(wait, m.MaxRetryAfter)
		}
		h.Set("Retry-After", seconds(wait))
	}
}

// quote writes a string of structured fields.
func quote(s string) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c > 0x7e:
			b = append(b, '_')
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// seconds writes whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// problem is a body of RFC 9457.
type problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	RetryAfter *int64 `json:"retry_after_ms,omitempty"`
}

func answer(w http.ResponseWriter, p problem) {
	p.Type = "about:blank"
	body, _ := json.Marshal(p) // cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
