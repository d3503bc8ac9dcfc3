package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/metadata"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/web"
)

// caller is one of several that ask at the same time. It, its policy and its limit have names
// that no other has, and its limit a number of its own.
type caller int

const callers = 12

func (c caller) String() string { return fmt.Sprintf("own_%02d", int(c)) }

func (c caller) quota() string { return strconv.Itoa((100 + int(c)) * 1_000_000) }

func anyCaller() caller { return caller(rand.IntN(callers)) }

var (
	ownName   = regexp.MustCompile(`own_\d\d`)
	ownNumber = regexp.MustCompile(`\b1\d{8}\b`) // a quota, or what is left of it
)

// owner returns whose a text is, and an error for one that is of several callers, or of
// none.
func owner(text string) (caller, error) {
	found := map[caller]bool{}
	for _, name := range ownName.FindAllString(text, -1) {
		n, _ := strconv.Atoi(name[len("own_"):])
		found[caller(n)] = true
	}
	for _, digits := range ownNumber.FindAllString(text, -1) {
		n, _ := strconv.Atoi(digits)
		found[caller((n+999_999)/1_000_000-100)] = true
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("it is of %v: %s", found, text)
	}
	for c := range found {
		return c, nil
	}
	panic("unreachable")
}

// gets returns an error unless a text is the caller's, with its number.
func (c caller) gets(text string) error {
	is, err := owner(text)
	if err == nil && (is != c || !ownNumber.MatchString(text)) {
		err = fmt.Errorf("it is for %v: %s", c, text)
	}
	return err
}

const ownScript = "return {KEYS[1], redis.call('RL.LIMIT', KEYS[1], ARGV[1], '1d'), string.rep(ARGV[2], 9)}"

// command is one of those of a caller, all of which reply its number.
func (c caller) command(n int) []string {
	name := c.String()
	switch n % 6 {
	case 0:
		return []string{"RL.CHECK", name, "user", name}
	case 1:
		return []string{"RL.RESERVE", name, "user", name, "ID", fmt.Sprintf("%s-%d", name, n)}
	case 2:
		return []string{"RL.LIMIT", name, c.quota(), "1d"}
	case 3:
		return []string{"EVAL", ownScript, "1", name, c.quota(), name}
	case 4: // which is compiled, and run, on a worker
		return []string{"EVAL", fmt.Sprint(ownScript, " --", strings.Repeat(" ", 5000), n), "1", name, c.quota(), name}
	}
	return []string{"RL.DESCRIPTORS", name, "1", "1", "1", "user", name, "-", "-"}
}

// Many callers ask over all fronts at the same time, and some leave in the middle. Each answer,
// in body and header fields, is the caller's own. Each event, and each line of the decision
// log, belongs to one caller.
func TestNobodyGetsAnothersAnswer(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	told := new(logbuf.Buffer)
	log := decisions.New(decisions.Config{Out: told, Logger: slog.New(slog.DiscardHandler), Plain: []string{"*"}, Key: []byte("k")})
	r := newRig(t, server.Config{Decisions: log, Runtime: server.Runtime{DecisionsDenied: 1_000_000, DecisionsOneIn: 1}}, web.Config{TrustedProxies: loopback})
	for c := range caller(callers) {
		r.policy(c.String(), fmt.Sprintf("{limits: {%[1]v: {by: user, rate: %[2]s/day}, %[1]v_tried: {by: user, rate: 1/day, mode: shadow}}}", c, c.quota()))
	}
	var routes []string
	for c := range caller(callers) {
		routes = append(routes, fmt.Sprintf("/%v/*: %v", c, c))
	}
	r.policy("routes/own", "{else: deny, attributes: {user: {header: X-User}}, match: {"+strings.Join(routes, ", ")+"}}")
	gateway, leaving := newGateway(t, r), make(chan struct{})
	redis := dialRESP(t, r.server).RemoteAddr().String()
	events := r.follow()

	var fronts, others errgroup.Group
	for range 2 {
		fronts.Go(func() error { return pipelined(redis, rounds) })
		fronts.Go(func() error { return r.pipelined(rounds) })
		fronts.Go(func() error { return r.chunked(rounds) })
		fronts.Go(func() error { return r.batched(rounds) })
		fronts.Go(func() error { return gateway.many(rounds) })
	}
	others.Go(func() error { return r.leave(redis, leaving) })
	require.NoError(t, fronts.Wait())
	close(leaving)
	require.NoError(t, others.Wait())

	heard := map[caller]bool{}
	for len(heard) < callers { // each was over its limit in shadow
		c, err := owner(<-events)
		require.NoError(t, err)
		heard[c] = true
	}
	log.Close()
	lines := map[string]int{}
	for line := range strings.Lines(told.String()) {
		_, err := owner(line)
		require.NoError(t, err)
		_, front, _ := strings.Cut(line, `"front":"`)
		front, _, _ = strings.Cut(front, `"`)
		lines[front]++
	}
	t.Log(lines)
	for _, front := range []string{"redis", "http", "forward-auth", "grpc"} {
		require.NotZero(t, lines[front], front)
	}
}

// follow returns the events of the server from now on.
func (r *rig) follow() <-chan string {
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	q, err := http.NewRequestWithContext(ctx, "GET", r.url+"/v1/events", nil)
	require.NoError(r.t, err)
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	require.Equal(r.t, 200, a.StatusCode)
	events := make(chan string, 1000)
	go func() {
		defer a.Body.Close()
		for in := bufio.NewScanner(a.Body); in.Scan(); {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok && strings.Contains(data, `"shadow"`) {
				events <- data
			}
		}
	}()
	return events
}

// pipelined asks by the Redis protocol, by some commands at a time.
func pipelined(addr string, rounds int) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	for range rounds {
		var of []caller
		var out []byte
		multi := rand.IntN(3) == 0
		if multi {
			out = resp.AppendCommand(out, []string{"MULTI"})
		}
		for range 1 + rand.IntN(20) {
			c := anyCaller()
			of, out = append(of, c), resp.AppendCommand(out, c.command(rand.IntN(1_000_000)))
		}
		if multi {
			out = resp.AppendCommand(out, []string{"EXEC"})
		}
		if _, err := nc.Write(out); err != nil {
			return err
		}
		skipped := 0
		if multi {
			skipped = 1 + len(of)
		}
		for range skipped {
			if text, err := resp.AppendReply(nil, in, 1<<20); err != nil || text[0] != '+' {
				return fmt.Errorf("%s %w", text, err)
			}
		}
		if multi {
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("*%d\r\n", len(of)) {
				return fmt.Errorf("%d replies are expected: %q %w", len(of), line, err)
			}
		}
		for _, c := range of {
			text, err := resp.AppendReply(nil, in, 1<<20)
			if err == nil {
				err = c.gets(string(text))
			}
			if err != nil {
				return fmt.Errorf("redis: %w", err)
			}
		}
	}
	return nil
}

// asked is what a caller asks over HTTP, by one of the ways that answer with fields.
func (c caller) asked(n int) string {
	user := fmt.Sprintf(`{"policy":"%[1]v","attributes":{"user":"%[1]v"}}`, c)
	switch n % 4 {
	case 0:
		return c.get("/v1/auth/routes:own", fmt.Sprintf("X-Forwarded-Uri: /%v/x", c))
	case 1:
		return c.get(fmt.Sprintf("/v1/authz/routes:own/%v/x", c), "A: b")
	case 2:
		return post(user, fmt.Sprintf("X-Request-Id: %[1]v\r\nIdempotency-Key: %[1]v-%[2]d\r\n", c, n))
	}
	return post(user, fmt.Sprintf("X-Request-Id: %v\r\n", c))
}

func (c caller) get(path, field string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nX-User: %[2]v\r\nX-Request-Id: %[2]v\r\n%s\r\n\r\n", path, c, field)
}

// pipelined asks over connections that are kept, by some requests at a time.
func (r *rig) pipelined(rounds int) error {
	nc, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		return err
	}
	defer nc.Close()
	in := bufio.NewReader(nc)
	for range rounds {
		var of []caller
		out := ""
		for range 1 + rand.IntN(5) {
			c := anyCaller()
			of, out = append(of, c), out+c.asked(rand.IntN(1_000_000))
		}
		if _, err := io.WriteString(nc, out); err != nil {
			return err
		}
		for _, c := range of {
			a, err := http.ReadResponse(in, nil)
			if err == nil {
				err = c.getsAnswer(a)
			}
			if err != nil {
				return fmt.Errorf("http: %w", err)
			}
		}
	}
	return nil
}

// getsAnswer returns an error unless an answer is the caller's, in its fields and in its
// body.
func (c caller) getsAnswer(a *http.Response) error {
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return err
	}
	if a.StatusCode != 200 {
		return fmt.Errorf("%d: %s", a.StatusCode, body)
	}
	if err := c.gets(fmt.Sprint(a.Header)); err != nil || len(body) == 0 {
		return err
	}
	return c.gets(string(body))
}

// chunked reserves and commits, and checks limits of calls, with bodies whose length
// nobody knows.
func (r *rig) chunked(rounds int) error {
	ask := func(c caller, path, body string) error {
		q, err := http.NewRequest("POST", r.url+path, io.MultiReader(strings.NewReader(body)))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Request-Id", c.String())
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		if err := c.getsAnswer(a); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	for range rounds {
		c, id := anyCaller(), rand.IntN(1_000_000_000)
		if err := ask(c, "/v1/reserve", fmt.Sprintf(`{"policy":"%[1]v","attributes":{"user":"%[1]v"},"id":"%[1]v-%x"}`, c, id)); err != nil {
			return err
		}
		if err := ask(c, "/v1/commit", fmt.Sprintf(`{"hold":"%[1]v;%[1]v-%x","cost":0}`, c, id)); err != nil {
			return err
		}
		if err := ask(c, "/v1/limits:check", fmt.Sprintf(`{"limits":[{"key":"%v","limit":%s,"period":"1d"}]}`, c, c.quota())); err != nil {
			return err
		}
	}
	return nil
}

// batched asks for many callers at a time.
func (r *rig) batched(rounds int) error {
	for range rounds / 3 {
		var of []caller
		var checks []string
		for range 1 + rand.IntN(60) {
			c := anyCaller()
			of, checks = append(of, c), append(checks, fmt.Sprintf(`{"policy":"%[1]v","attributes":{"user":"%[1]v"}}`, c))
		}
		q, err := http.NewRequest("POST", r.url+"/v1/check:batch", strings.NewReader(`{"checks":[`+strings.Join(checks, ",")+`]}`))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("X-Request-Id", "batch")
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			return err
		}
		var answer struct{ Results []json.RawMessage }
		err = json.NewDecoder(a.Body).Decode(&answer)
		a.Body.Close()
		if err != nil || len(answer.Results) != len(of) {
			return fmt.Errorf("%d results for %d checks: %w", len(answer.Results), len(of), err)
		}
		for i, c := range of {
			if err := c.gets(string(answer.Results[i])); err != nil {
				return fmt.Errorf("batch: %w", err)
			}
		}
	}
	return nil
}

// many asks as Envoy does, by some requests of one connection at a time.
func (g *gateway) many(rounds int) error {
	var calls errgroup.Group
	calls.SetLimit(4)
	for range 2 * rounds {
		calls.Go(func() error {
			c := anyCaller()
			d := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: c.String()}}}
			ctx := metadata.AppendToOutgoingContext(context.Background(), "x-request-id", c.String())
			a, err := g.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: c.String(), Descriptors: []*ratelimit.RateLimitDescriptor{d}})
			if err == nil {
				err = c.gets(a.String())
			}
			if err != nil {
				return fmt.Errorf("grpc: %w", err)
			}
			return nil
		})
	}
	return calls.Wait()
}

// leave asks, and goes before it is answered, again and again.
func (r *rig) leave(redis string, enough <-chan struct{}) error {
	for {
		select {
		case <-enough:
			return nil
		case <-time.After(time.Millisecond):
		}
		c, n := anyCaller(), rand.IntN(1_000_000)
		for addr, text := range map[string]string{redis: string(resp.AppendCommand(nil, c.command(n))), strings.TrimPrefix(r.url, "http://"): c.asked(n)} {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			text += text
			_, _ = io.WriteString(nc, text[:len(text)/2+rand.IntN(len(text)/2)])
			nc.Close()
		}
	}
}
