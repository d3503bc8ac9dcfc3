package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/headgate-io/headgate/faults/history"
)

// The fronts that gateways ask, and their policies: one that routes lead to, and one
// in Envoy's dialect, which counts what it denies too. Nothing comes back within a run.
const (
	ByRoutes      = "gateway"
	ByDescriptors = "Envoy"

	gatePolicy  = "gate"
	envoyPolicy = "envoy"
	gateRoutes  = "{else: deny, attributes: {user: {header: X-User}}, match: {'/orders/{id}': gate}}"
)

// GatewayConfig describes gateways.
type GatewayConfig struct {
	Gateways   int // of each front
	Nodes      int
	Redis      string // where policies are set
	HTTP, GRPC func(node int) string
	Epoch      time.Time
	Seed       uint64
	Every      time.Duration // from one question of a gateway to the next, on average
	Life       time.Duration // of a user
	Timeout    time.Duration // of one question
	Limit      int           // of a user
	Local      bool          // nodes answer on their shares without a leader; else answers wait for their commit, and are refused
}

// Gateways ask about requests of their clients, each of a node of its own, and never
// twice: what has no answer may have been charged.
type Gateways struct {
	cfg   GatewayConfig
	quit  chan struct{}
	wg    sync.WaitGroup
	pause atomic.Bool
	all   []*gateway
}

// gateway is one of them.
type gateway struct {
	*GatewayConfig
	front  string
	n      int
	rnd    *rand.Rand
	client http.Client
	conn   *grpc.ClientConn // to the address to; nil at first
	to     string
	busy   sync.Mutex // held while a question is under way
	asked  []history.Asked
}

// NewGateways returns gateways, having set their policies.
func NewGateways(cfg GatewayConfig) (*Gateways, error) {
	how := "durability: sync, on_failure: closed"
	if cfg.Local {
		how = "on_failure: local"
	}
	for _, p := range [][2]string{
		{gatePolicy, fmt.Sprintf("{%s, limits: {user: {by: user, algorithm: fixed, align: first, rate: %d/24h}}}", how, cfg.Limit)},
		{envoyPolicy, fmt.Sprintf("{%s, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: %d}}]}", how, cfg.Limit)},
		{"routes/edge", gateRoutes},
	} {
		if err := setPolicy(cfg.Redis, cfg.Timeout, p[0], p[1]); err != nil {
			return nil, err
		}
	}
	g := &Gateways{cfg: cfg, quit: make(chan struct{})}
	for n := range cfg.Gateways {
		for _, front := range []string{ByRoutes, ByDescriptors} {
			g.all = append(g.all, &gateway{
				GatewayConfig: &g.cfg, front: front, n: n, rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(2000+len(g.all)))),
				// net/http makes a GET again whose connection has closed: but on one of its own.
				client: http.Client{Timeout: cfg.Timeout, Transport: &http.Transport{DisableKeepAlives: true}},
			})
		}
	}
	return g, nil
}

// envoy is the gateway's connection to its node, which may have changed since the last
// call.
func (g *gateway) envoy() (rls.RateLimitServiceClient, error) {
	if to := g.GRPC(g.n % g.Nodes); g.conn == nil || to != g.to {
		soon := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}
		conn, err := grpc.NewClient("passthrough:"+to, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDisableRetry(), grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: time.Second}))
		if err != nil {
			return nil, err
		}
		if g.conn != nil {
			g.conn.Close()
		}
		g.conn, g.to = conn, to
	}
	return rls.NewRateLimitServiceClient(g.conn), nil
}

// Start begins to ask.
func (g *Gateways) Start() {
	for _, one := range g.all {
		g.wg.Go(func() { g.run(one) })
	}
}

// Pause waits for the questions that are under way, and begins no more until Resume.
func (g *Gateways) Pause() {
	g.pause.Store(true)
	for _, one := range g.all {
		one.idle()
	}
}

// Resume ends a pause.
func (g *Gateways) Resume() { g.pause.Store(false) }

// Stop ends the questions and returns them.
func (g *Gateways) Stop() (asked []history.Asked) {
	close(g.quit)
	g.wg.Wait()
	for _, one := range g.all {
		asked = append(asked, one.asked...)
		if one.conn != nil {
			one.conn.Close()
		}
	}
	return asked
}

func (g *Gateways) run(one *gateway) {
	for {
		select {
		case <-g.quit:
			return
		case <-time.After(time.Duration((0.5 + one.rnd.Float64()) * float64(g.cfg.Every))):
		}
		one.busy.Lock()
		if !g.pause.Load() {
			one.asked = append(one.asked, one.ask())
		}
		one.busy.Unlock()
	}
}

// idle waits until no question is under way.
func (g *gateway) idle() {
	g.busy.Lock()
	defer g.busy.Unlock()
}

func (g *gateway) now() int64 { return int64(time.Since(g.Epoch)) }

// ask asks one question.
func (g *gateway) ask() history.Asked {
	now := g.now()
	a := history.Asked{
		Front: g.front, User: fmt.Sprintf("g%d.%d", g.rnd.IntN(max(1, g.Gateways/2)), now/int64(g.Life)), Node: uint8(g.n % g.Nodes), Start: now, Outcome: history.Unknown,
	}
	if g.front == ByRoutes {
		g.byRoutes(&a)
	} else {
		g.byDescriptors(&a)
	}
	a.End = g.now()
	return a
}

// byRoutes asks as a gateway with forward-auth does.
func (g *gateway) byRoutes(a *history.Asked) {
	q, err := http.NewRequest(http.MethodGet, "http://"+g.HTTP(int(a.Node))+"/v1/auth/routes:edge", nil)
	if err != nil {
		a.Wrong = err.Error()
		return
	}
	q.Header.Set("X-User", a.User)
	q.Header.Set("X-Forwarded-Uri", "/orders/7?all")
	reply, err := g.client.Do(q)
	if err != nil {
		a.Refusal = err.Error()
		if unsent(err) {
			a.Outcome = history.Refused
		}
		return
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	switch {
	case err != nil:
		a.Refusal = err.Error()
	case reply.StatusCode == http.StatusOK:
		a.Outcome = history.Admitted
	case reply.StatusCode == http.StatusTooManyRequests:
		a.Outcome = history.Denied
		a.Local = strings.Contains(string(body), `"degraded":true`)
	case reply.StatusCode == http.StatusServiceUnavailable:
		a.Refusal = string(body)
		if refusals[codeOf(body)] {
			a.Outcome = history.Refused
		}
	default:
		a.Wrong = reply.Status + " " + string(body)
	}
}

// unsent reports whether a request certainly has not reached a server.
func unsent(err error) bool {
	op := new(net.OpError)
	return errors.As(err, &op) && op.Op == "dial"
}

// byDescriptors asks as Envoy does.
func (g *gateway) byDescriptors(a *history.Asked) {
	ctx, cancel := context.WithTimeout(context.Background(), g.Timeout)
	defer cancel()
	envoy, err := g.envoy()
	if err != nil {
		a.Wrong = err.Error()
		return
	}
	reply, err := envoy.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: envoyPolicy, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: a.User}},
	}}})
	if err != nil {
		s := status.Convert(err)
		a.Refusal = s.Message()
		word, _, _ := strings.Cut(s.Message(), " ")
		switch s.Code() {
		case codes.Unavailable, codes.ResourceExhausted:
			if refusals[word] || strings.Contains(s.Message(), "error while dialing") {
				a.Outcome = history.Refused
			}
		case codes.DeadlineExceeded, codes.Canceled:
		default:
			a.Wrong = s.String()
		}
		return
	}
	switch {
	case len(reply.Statuses) != 1 || reply.Statuses[0].CurrentLimit == nil:
		a.Wrong = reply.String()
	case reply.OverallCode == rls.RateLimitResponse_OK:
		a.Outcome = history.Admitted
	default:
		a.Outcome = history.Denied
	}
	a.Local = reply.DynamicMetadata.GetFields()["degraded"].GetBoolValue()
}

// GatewayCounter is the command that tells what the counter of a user of a front holds,
// as `used`.
func GatewayCounter(front, user string) []string {
	if front == ByDescriptors {
		return []string{"RL.EXPLAIN", "POLICY", envoyPolicy, "user", user}
	}
	return []string{"RL.EXPLAIN", "@" + gatePolicy + ":user;user=" + user}
}

// GatewayCharged reports whether an answer has charged the counter: descriptors count
// what they deny, too.
func GatewayCharged(a *history.Asked) bool {
	return a.Front == ByDescriptors || a.Outcome == history.Admitted
}
