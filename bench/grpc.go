package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// grpcReport is what Envoy's calls cost, beside a bare handler of grpc-go, and
// envoyproxy/ratelimit if it is there.
type grpcReport struct {
	Rows []*grpcRow `json:"rows"`
}

// grpcRow are calls of some descriptors.
type grpcRow struct {
	Descriptors int    `json:"descriptors"`
	Headgate    []cost `json:"headgate"`
	Bare        []cost `json:"bare"`
	Envoy       []cost `json:"envoyproxy_ratelimit,omitempty"`
	// HeadgateP99 and EnvoyP99 are of grpcRate calls a second, of each run.
	HeadgateP99 []time.Duration `json:"headgate_p99_ns"`
	EnvoyP99    []time.Duration `json:"envoyproxy_ratelimit_p99_ns,omitempty"`
}

const (
	// grpcCallers ask at a time, on grpcConnections: gateways have one a thread.
	grpcCallers     = 50
	grpcConnections = 4
	// grpcRate is the calls per second of the open loop.
	grpcRate = 500
	// grpcMost is the most descriptors of a call.
	grpcMost = 10
)

// grpcLimits are the limits of a domain, which admit every call.
var grpcLimits = func() string {
	list := make([]string, grpcMost)
	for i := range list {
		list[i] = fmt.Sprintf("{key: k%d, rate_limit: {unit: day, requests_per_unit: 1000000}}", i)
	}
	return "descriptors: [" + strings.Join(list, ", ") + "]"
}()

// closedLoop has grpcCallers ask for the time d.
func (g *grpcPeer) closedLoop(ctx context.Context, d time.Duration, descriptors int, keys uint64) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, d+askTimeout)
	defer cancel()
	return g.p.driven(ctx, d, grpcCallers, func(until context.Context, i int) (calls int64, err error) {
		for ; until.Err() == nil && err == nil; calls++ {
			_, err = g.ask(ctx, i, descriptors, rand.Uint64N(keys))
		}
		return calls, err
	})
}

// openLoop makes grpcRate calls a second for the time d. It returns the 99th percentile
// of the times from when each is due to its answer.
func (g *grpcPeer) openLoop(ctx context.Context, d time.Duration, descriptors int, keys uint64) (time.Duration, error) {
	n := max(1, int(d.Seconds()*grpcRate))
	waits, failures := make([]time.Duration, n), make([]error, n)
	ctx, cancel := context.WithTimeout(ctx, d+askTimeout)
	defer cancel()
	var calls sync.WaitGroup
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / grpcRate)
		time.Sleep(time.Until(due))
		calls.Go(func() {
			_, failures[i] = g.ask(ctx, i, descriptors, rand.Uint64N(keys))
			waits[i] = time.Since(due)
		})
	}
	calls.Wait()
	return quantile(waits, 0.99), errors.Join(failures...)
}

// bareGRPC answers every call with some bytes.
type bareGRPC struct {
	rls.UnimplementedRateLimitServiceServer
	answer *rls.RateLimitResponse
}

// ShouldRateLimit implements rls.RateLimitServiceServer.
func (b bareGRPC) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return b.answer, nil
}

// serveBareGRPC answers every call with a message of about size bytes, on addr, until
// ctx ends: grpc-go and generated code, and nothing else.
func serveBareGRPC(ctx context.Context, addr string, size int) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, bareGRPC{answer: &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK, RawBody: make([]byte, size)}})
	defer context.AfterFunc(ctx, s.Stop)()
	return s.Serve(l)
}

// startEnvoyRatelimit starts envoyproxy/ratelimit, with its limits in dir, and a Redis
// for it.
func startEnvoyRatelimit(dir string, bin paths) (service, redis *process, addr string, err error) {
	config := filepath.Join(dir, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, nil, "", err
	}
	if err := os.WriteFile(filepath.Join(config, "p.yaml"), []byte("domain: p\n"+grpcLimits+"\n"), 0o644); err != nil {
		return nil, nil, "", err
	}
	addrs, err := subprocess.Addrs("127.0.0.1", 3)
	if err != nil {
		return nil, nil, "", err
	}
	if redis, err = startRedis(dir, "redis-ratelimit"); err != nil {
		return nil, nil, "", err
	}
	cmd := subprocess.Command(bin.envoyRatelimit)
	cmd.Env = append(cmd.Env, "BACKEND_TYPE=redis", "LOG_LEVEL=ERROR", "DISABLE_STATS=true", "USE_STATSD=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL="+redis.addr,
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	for i, name := range []string{"", "GRPC_", "DEBUG_"} {
		host, port, _ := strings.Cut(addrs[i], ":")
		cmd.Env = append(cmd.Env, name+"HOST="+host, name+"PORT="+port)
	}
	run, err := subprocess.Start(cmd)
	if err != nil {
		redis.stop()
		return nil, nil, "", err
	}
	return &process{Process: run, name: "envoyproxy/ratelimit"}, redis, addrs[1], nil
}

// measureGRPC measures Envoy's calls on servers of their own, which take turns.
func (b *bench) measureGRPC(ctx context.Context, dir string) (*grpcReport, error) {
	rep := &grpcReport{}
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return rep, err
	}
	p, err := startHeadgate(dir, b.bin.headgate, "--grpc-listen", addrs[0])
	if err != nil {
		return rep, err
	}
	defer p.stop()
	if err := p.setPolicy("p", "{"+grpcLimits+"}"); err != nil {
		return rep, err
	}
	ours, err := dialGRPC(ctx, p, "Headgate ShouldRateLimit", addrs[0])
	if err != nil {
		return rep, err
	}
	defer ours.close()
	var envoy *grpcPeer
	if b.bin.envoyRatelimit != "" {
		service, redis, addr, err := startEnvoyRatelimit(dir, b.bin)
		if err != nil {
			return rep, err
		}
		defer redis.stop()
		defer service.stop()
		if envoy, err = dialGRPC(ctx, service, "envoyproxy/ratelimit", addr); err != nil {
			return rep, err
		}
		defer envoy.close()
	}
	for _, descriptors := range []int{1, grpcMost} {
		row := &grpcRow{Descriptors: descriptors}
		rep.Rows = append(rep.Rows, row)
		if err := b.measureGRPCRow(ctx, row, ours, envoy); err != nil {
			return rep, err
		}
	}
	return rep, ctx.Err()
}

// measureGRPCRow measures a row, beside a bare handler that answers as many bytes.
func (b *bench) measureGRPCRow(ctx context.Context, row *grpcRow, ours, envoy *grpcPeer) error {
	size, err := ours.ask(ctx, 0, row.Descriptors, 0)
	if err != nil {
		return err
	}
	p, err := startBare("grpc", size)
	if err != nil {
		return err
	}
	defer p.stop()
	bare, err := dialGRPC(ctx, p, "bare handler", p.http)
	if err != nil {
		return err
	}
	defer bare.close()
	contestants := []struct {
		*grpcPeer
		costs *[]cost
		p99   *[]time.Duration // nil is not measured
	}{{ours, &row.Headgate, &row.HeadgateP99}, {bare, &row.Bare, nil}, {envoy, &row.Envoy, &row.EnvoyP99}}
	for round := -1; round < max(3, b.runs-2); round++ {
		for _, v := range contestants {
			if v.grpcPeer == nil {
				continue
			}
			c, err := v.closedLoop(ctx, b.runTime/2, row.Descriptors, uint64(b.keys))
			if err != nil {
				return err
			}
			if round < 0 { // warms up
				continue
			}
			*v.costs = append(*v.costs, c)
			b.logf("%-44s %9.0f/s  %6.2f µs CPU", fmt.Sprintf("%s, %d descriptors", v.label, row.Descriptors), c.Rate, micros(c.CPU))
			if v.p99 == nil {
				continue
			}
			wait, err := v.openLoop(ctx, b.runTime/2, row.Descriptors, uint64(b.keys))
			if err != nil {
				return err
			}
			*v.p99 = append(*v.p99, wait)
			b.logf("%-44s %9.0f µs p99 at %d/s", "", micros(wait), grpcRate)
		}
	}
	return nil
}

func (r *grpcReport) targets() []target {
	var list []target
	for _, row := range r.Rows {
		if len(row.Bare) > 0 {
			of, to := median(row.Headgate, costRate), median(row.Bare, costRate)
			list = append(list, target{Name: fmt.Sprintf("ShouldRateLimit of %s, %d callers, against a bare gRPC handler that answers as many bytes", row.name(), grpcCallers),
				Value: of / to, Unit: "x", Floor: 0.8, Goal: 0.95, Detail: fmt.Sprintf("%.0f/s against %.0f/s", of, to)})
		}
		if len(row.Envoy) > 0 {
			of, to := median(row.Headgate, costRate), median(row.Envoy, costRate)
			list = append(list, target{Name: fmt.Sprintf("ShouldRateLimit of %s, %d callers, against envoyproxy/ratelimit on Redis", row.name(), grpcCallers),
				Value: of / to, Unit: "x", Floor: 3, Goal: 5, Detail: fmt.Sprintf("%.0f/s against %.0f/s", of, to)})
		}
		if row.Descriptors == grpcMost && len(row.HeadgateP99) > 0 {
			list = append(list, target{Name: fmt.Sprintf("ShouldRateLimit of %s at %d/s: p99", row.name(), grpcRate),
				Value: median(row.HeadgateP99, itself).Seconds() * 1000, Unit: " ms", Floor: 5, Goal: 2, AtMost: true})
		}
	}
	return list
}

func (r *grpcRow) name() string {
	if r.Descriptors == 1 {
		return "1 descriptor"
	}
	return fmt.Sprintf("%d descriptors", r.Descriptors)
}

func itself(d time.Duration) time.Duration { return d }

func (r *grpcReport) write(line func(string, ...any)) {
	line("\n## Envoy's calls over gRPC, %d callers on %d connections\n\n| | server CPU µs | per second | p99 µs at %d/s |\n|---|---|---|---|", grpcCallers, grpcConnections, grpcRate)
	for _, row := range r.Rows {
		for _, v := range []struct {
			label string
			costs []cost
			p99   []time.Duration
		}{{"Headgate", row.Headgate, row.HeadgateP99}, {"bare handler", row.Bare, nil}, {"envoyproxy/ratelimit, its CPU without that of Redis", row.Envoy, row.EnvoyP99}} {
			if len(v.costs) == 0 {
				continue
			}
			wait := ""
			if len(v.p99) > 0 {
				wait = fmt.Sprintf("%.0f", micros(median(v.p99, itself)))
			}
			line("| %s, %s | %.2f | %.0f | %s |", v.label, row.name(), micros(median(v.costs, costCPU)), median(v.costs, costRate), wait)
		}
	}
}
