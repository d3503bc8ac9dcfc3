package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	headgate "github.com/headgate-io/headgate/clients/go"
	"github.com/headgate-io/headgate/clients/go/httplimit"
)

// server is a fake server that notes what it was asked.
type server struct {
	reply any
	err   error
	asked []string
}

func (s *server) Do(_ context.Context, args ...any) (any, error) {
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintln(args...)))
	return s.reply, s.err
}

func values(v ...any) any {
	for i := range v {
		if n, ok := v[i].(int); ok {
			v[i] = int64(n)
		}
	}
	return v
}

var hourly = headgate.Limit{Units: 5, Period: time.Hour}

// ask makes a request to middleware in front of an application that answers 204.
func ask(t *testing.T, s *server, o httplimit.Options, edit func(*http.Request)) *http.Response {
	t.Helper()
	c := headgate.New(s, headgate.Options{MaxLeases: -1, Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = c.Close(context.Background()) }()
	o.Logger = slog.New(slog.DiscardHandler)
	wrap, err := httplimit.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func equal(t *testing.T, what string, is, want any) {
	t.Helper()
	if is != want {
		t.Errorf("%s is %q, not %q", what, is, want)
	}
}

func fields(t *testing.T, r *http.Response, want map[string]string) {
	t.Helper()
	for name, v := range want {
		equal(t, name, strings.Join(r.Header.Values(name), "|"), v)
	}
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHeaderFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := fmt.Sprint(time.Now().Add(1440 * time.Second).Unix())
		s := &server{reply: values(1, 5, 3, 0, 1440000, 0)}
		r := ask(t, s, httplimit.Options{Limit: hourly}, nil)
		equal(t, "status", r.StatusCode, http.StatusNoContent)
		equal(t, "the command", s.asked[0], "RL.LIMIT default:192.0.2.1 5 3600s")
		fields(t, r, map[string]string{
			"RateLimit": `"default";r=3;t=1440`, "RateLimit-Policy": `"default";q=5;w=3600`, "X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3",
			"X-RateLimit-Reset": reset, "Retry-After": "",
		})

		s = &server{reply: values(0, 5, 0, 11400, 3600000, 0)}
		r = ask(t, s, httplimit.Options{Limit: hourly, Name: "pages"}, nil)
		equal(t, "status", r.StatusCode, http.StatusTooManyRequests)
		fields(t, r, map[string]string{
			"RateLimit": `"pages";r=0;t=12`, "RateLimit-Policy": `"pages";q=5;w=3600`, "Retry-After": "12", "Content-Type": "application/problem+json",
		})
		equal(t, "body", body(t, r), `{"type":"about:blank","title":"Too Many Requests","status":429,"retry_after_ms":11400}`)

		r = ask(t, s, httplimit.Options{Limit: hourly, MaxRetryAfter: 10 * time.Second}, nil)
		fields(t, r, map[string]string{"RateLimit": `"default";r=0;t=12`, "Retry-After": "10"})

		s = &server{reply: values(0, 5, 5, -1, 0, 0)}
		r = ask(t, s, httplimit.Options{Limit: hourly, Cost: func(*http.Request) int64 { return 6 }}, nil)
		equal(t, "the command", s.asked[0], "RL.LIMIT default:192.0.2.1 5 3600s COST 6")
		fields(t, r, map[string]string{"RateLimit": `"default";r=5`, "Retry-After": ""})
		equal(t, "body", body(t, r), `{"type":"about:blank","title":"Too Many Requests","status":429}`)
	})
}

func TestPolicy(t *testing.T) {
	limit := []any{"user", int64(0), int64(5), int64(0), int64(2000), int64(9000), int64(0), int64(1), "enforce", int64(429), int64(60500)}
	s := &server{reply: values(0, 5, 0, 2000, 9000, 0, "user", "limit", nil, 7, 1, []any{limit}, []any{})}
	r := ask(t, s, httplimit.Options{Policy: headgate.Policy{Name: "edge"}}, nil)
	equal(t, "the command", s.asked[0], "RL.CHECK edge ip 192.0.2.1")
	equal(t, "status", r.StatusCode, http.StatusTooManyRequests)
	fields(t, r, map[string]string{"RateLimit": `"user";r=0;t=2`, "RateLimit-Policy": `"user";q=5`, "Retry-After": "2"})

	s = &server{reply: values(1, -1, -1, 0, 0, 0, nil, "none", nil, 7, 0, []any{}, []any{})}
	r = ask(t, s, httplimit.Options{
		Policy:     headgate.Policy{Name: "edge"},
		Attributes: func(*http.Request) headgate.Attributes { return headgate.Attributes{"user": "eve"} },
	}, nil)
	equal(t, "the command", s.asked[0], "RL.CHECK edge user eve")
	fields(t, r, map[string]string{"RateLimit": "", "RateLimit-Policy": "", "X-RateLimit-Limit": ""})
}

func TestServerIsAway(t *testing.T) {
	away := &server{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	limit := hourly
	r := ask(t, away, httplimit.Options{Limit: limit}, nil)
	equal(t, "status of local", r.StatusCode, http.StatusNoContent)
	fields(t, r, map[string]string{"RateLimit": `"default";r=0;t=3600`, "RateLimit-Policy": `"default";q=5;w=3600`})
	limit.OnFailure = headgate.Open
	r = ask(t, away, httplimit.Options{Limit: limit}, nil)
	equal(t, "status of open", r.StatusCode, http.StatusNoContent)
	fields(t, r, map[string]string{"RateLimit": "", "X-RateLimit-Limit": ""})
	limit.OnFailure = headgate.Closed
	r = ask(t, away, httplimit.Options{Limit: limit}, nil)
	equal(t, "status of closed", r.StatusCode, http.StatusServiceUnavailable)
	fields(t, r, map[string]string{"RateLimit": "", "Retry-After": "1"})
	equal(t, "body", body(t, r), `{"type":"about:blank","title":"Service Unavailable","status":503,"retry_after_ms":1000}`)
}

// TestMistakes has a server that answers with an error: the failure policy decides.
func TestMistakes(t *testing.T) {
	limit := headgate.Limit{Units: 10, Period: time.Hour}
	for _, test := range []struct {
		on       headgate.OnFailure
		statuses []int
	}{
		{headgate.Local, []int{204, 204, 429, 429}}, // a fifth of 10
		{headgate.Open, []int{204, 204, 204, 204}},
		{headgate.Closed, []int{503, 503, 503, 503}},
	} {
		for name, err := range map[string]error{
			"limit":  errors.New("WRONGTYPE Operation against a key holding the wrong kind of value"),
			"policy": errors.New("NOPOLICY policy 'edge' does not exist"),
		} {
			var log strings.Builder
			c := headgate.New(&server{err: err}, headgate.Options{MaxLeases: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			of := limit
			of.OnFailure = test.on
			o := httplimit.Options{Limit: of}
			if name == "policy" {
				o = httplimit.Options{Policy: headgate.Policy{Name: "edge", Limit: limit, OnFailure: test.on}}
			}
			wrap, newErr := httplimit.New(c, o)
			if newErr != nil {
				t.Fatal(newErr)
			}
			h := wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
			for _, status := range test.statuses {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				equal(t, fmt.Sprint(name, " ", test.on), w.Code, status)
			}
			equal(t, "mistakes", c.Stats().Mistakes, int64(4))
			equal(t, "failures", c.Stats().Failures, int64(0))
			equal(t, "lines", strings.Count(log.String(), "\n"), 1)
			if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), err.Error()[:8]) {
				t.Error(log.String())
			}
		}
	}
}

func TestOptionsThatContradict(t *testing.T) {
	for name, o := range map[string]httplimit.Options{
		"nothing": {}, "both": {Limit: hourly, Policy: headgate.Policy{Name: "p"}},
		"a key of a policy":  {Policy: headgate.Policy{Name: "p"}, Key: func(*http.Request) string { return "" }},
		"a useless backstop": {Policy: headgate.Policy{Name: "p"}, Backstop: true},
	} {
		if _, err := httplimit.New(nil, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAddresses(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, test := range map[string]struct {
		peer, forwarded string
		trusted         []netip.Prefix
		key             string // empty for an error
	}{
		"no proxy":                           {"192.0.2.9:1", "", nil, "192.0.2.9"},
		"a field that nobody has asked for":  {"192.0.2.9:1", "198.51.100.1", nil, ""},
		"there are none":                     {"192.0.2.9:1", "198.51.100.1", []netip.Prefix{}, "192.0.2.9"},
		"a proxy":                            {"10.1.2.3:1", "198.51.100.1", proxies, "198.51.100.1"},
		"what a client says of itself":       {"10.1.2.3:1", "203.0.113.7, 198.51.100.1", proxies, "198.51.100.1"},
		"two proxies":                        {"10.1.2.3:1", "203.0.113.7, 198.51.100.1, 10.9.9.9", proxies, "198.51.100.1"},
		"a proxy that says nothing readable": {"10.1.2.3:1", "unknown", proxies, "10.1.2.3"},
		"not a proxy":                        {"192.0.2.9:1", "198.51.100.1", proxies, "192.0.2.9"},
		"IPv6":                               {"[2001:db8:1:2:3:4:5:6%eth0]:1", "", nil, "2001:db8:1:2::/64"},
		"IPv4 in IPv6":                       {"[::ffff:10.1.2.3]:1", "2001:db8::1", proxies, "2001:db8::/64"},
		"no address":                         {"@", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{reply: values(1, 5, 3, 0, 1440000, 0)}
			r := ask(t, s, httplimit.Options{Limit: hourly, TrustedProxies: test.trusted}, func(r *http.Request) {
				r.RemoteAddr = test.peer
				if test.forwarded != "" {
					r.Header.Set("X-Forwarded-For", test.forwarded)
				}
			})
			if test.key == "" {
				equal(t, "status", r.StatusCode, http.StatusInternalServerError)
				return
			}
			equal(t, "the command", strings.Fields(s.asked[0])[1], "default:"+test.key)
		})
	}
	s := &server{reply: values(1, 5, 3, 0, 1440000, 0)}
	ask(t, s, httplimit.Options{Limit: hourly, Key: func(r *http.Request) string { return r.Header.Get("X-User") }}, func(r *http.Request) {
		r.Header.Set("X-User", "eve")
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
	})
	equal(t, "the command", s.asked[0], "RL.LIMIT default:eve 5 3600s")
}

func TestBackstop(t *testing.T) {
	s := &server{reply: values(1, 5, 3, 0, 1440000, 0)}
	c := headgate.New(s, headgate.Options{MaxLeases: -1})
	wrap, err := httplimit.New(c, httplimit.Options{Limit: hourly, Backstop: true})
	if err != nil {
		t.Fatal(err)
	}
	h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range 51 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if (w.Code == http.StatusTooManyRequests) != (i == 50) {
			t.Errorf("request %d: %d", i, w.Code)
		}
		if i == 50 {
			equal(t, "RateLimit", w.Header().Get("RateLimit"), `"default";r=0;t=72`)
		}
	}
	equal(t, "commands", len(s.asked), 50)
}

// host answers requests by a bucket of 10 per second, and says so in header fields.
type host struct {
	style  string
	level  float64
	last   time.Time
	denied int
	served int
}

func (h *host) RoundTrip(*http.Request) (*http.Response, error) {
	now := time.Now()
	h.level = min(10, h.level+now.Sub(h.last).Seconds()*10)
	h.last = now
	r := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: http.NoBody}
	if h.level < 1 {
		h.denied++
		r.StatusCode = http.StatusTooManyRequests
		r.Header.Set("Retry-After", "1")
	} else {
		h.level--
		h.served++
	}
	switch h.style {
	case "RateLimit":
		r.Header.Set("RateLimit", `"other";r=900, "default";r=`+strconv.Itoa(int(h.level)))
		r.Header.Set("RateLimit-Policy", `"default";q=10;w=1, "other";q=1000;w=1`)
	case "X-RateLimit":
		r.Header.Set("X-RateLimit-Remaining", strconv.Itoa(int(h.level)))
		r.Header.Set("X-RateLimit-Reset", "1")
	}
	return r, nil
}

// TestTransportSpaces makes 200 requests as fast as it may.
func TestTransportSpaces(t *testing.T) {
	for style, most := range map[string]int{"RateLimit": 1, "X-RateLimit": 1, "Retry-After": 40} {
		t.Run(style, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{style: style, level: 10, last: time.Now()}
				client := http.Client{Transport: &httplimit.Transport{Base: h}}
				for range 200 {
					r, err := client.Get("http://api.example/")
					if err != nil {
						t.Fatal(err)
					}
					_ = r.Body.Close()
					time.Sleep(time.Millisecond)
				}
				t.Logf("%d served, %d denied", h.served, h.denied)
				if h.denied > most {
					t.Errorf("%d of 200 requests were denied", h.denied)
				}
				// An unlimited host is not waited for.
				began := time.Now()
				h.style, h.level = "", 1e9
				r, err := client.Get("http://other.example/")
				if err != nil {
					t.Fatal(err)
				}
				_ = r.Body.Close()
				equal(t, "wait", time.Since(began), time.Duration(0))
			})
		})
	}
}

func TestTransportDoesNotWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		client := http.Client{Transport: &httplimit.Transport{Base: roundTripper(func(*http.Request) *http.Response {
			asked++
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}, Body: http.NoBody}
		})}}
		r, err := client.Get("http://api.example/")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		_, err = client.Get("http://api.example/")
		var wait *httplimit.WaitError
		if !errors.As(err, &wait) || wait.Wait < 24*time.Hour || asked != 1 {
			t.Errorf("%v after %d requests", err, asked)
		}
		time.Sleep(29 * time.Hour)
		if _, err = client.Get("http://api.example/"); err != nil || asked != 2 {
			t.Errorf("%v after %d requests", err, asked)
		}
	})
}

type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
