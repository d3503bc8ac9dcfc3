// Command bench measures Headgate beside its peers, in one run on one machine. README.md
// says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the program.
type bench struct {
	root  string // of the source tree
	bin   paths
	peers []*peer
	keys  int // of the million-key loads
	effort
	quick    bool
	progress io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	b := &bench{keys: 1_000_000, progress: stderr}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&b.quick, "quick", false, "short runs of the speed rows; print the result, store nothing")
	brief := fs.Bool("brief", false, "all rows in shorter runs, for results in less time")
	fs.StringVar(&b.bin.headgate, "headgate", "", "headgate `program`; default: build it")
	out := fs.String("out", "", "`directory` of the results; default bench/results, with -quick none")
	only := fs.String("only", "", "comma-separated `parts`: "+strings.Join(parts, ", ")+"; default all but the last, with -quick the first two")
	strict := fs.Bool("strict", false, "fail when a target is missed")
	bare := fs.String("bare-http", "", "measure nothing, and serve a bare handler of net/http on `address`, which the HTTP rows start")
	bareCalls := fs.String("bare-grpc", "", "the same with grpc-go, for the gRPC rows")
	bareSize := fs.Int("bare-size", 0, "`bytes` of each answer of these")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if *bare != "" {
		return serveBare(ctx, *bare, *bareSize)
	}
	if *bareCalls != "" {
		return serveBareGRPC(ctx, *bareCalls, *bareSize)
	}
	b.effort = effort{7, 3 * time.Second, time.Minute, 20}
	switch {
	case b.quick:
		b.effort = effort{3, time.Second, 10 * time.Second, 10}
	case *brief:
		b.effort = effort{5, 2 * time.Second, 20 * time.Second, 10}
	}
	selected, err := selectParts(*only, b.quick)
	if err != nil {
		return err
	}
	if err := b.locate(ctx); err != nil {
		return err
	}
	rep, failed := b.measure(ctx, selected)
	if rep == nil {
		return failed
	}
	fmt.Fprint(stdout, rep.markdown())
	if *out == "" && !b.quick {
		*out = filepath.Join(b.root, "bench", "results")
	}
	if *out != "" {
		if err := rep.write(*out); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	if missed := rep.missed(); *strict && missed > 0 {
		return fmt.Errorf("%d targets missed", missed)
	}
	return nil
}

// effort is how much is measured.
type effort struct {
	runs    int           // of each measurement
	runTime time.Duration // of one of them
	long    time.Duration // of the overload, and of each replicated load
	kills   int           // of a cluster's leader
}

// parts of a run, in the order in which they are measured.
var parts = []string{"throughput", "latency", "overload", "replication", "failover", "decision", "check", "policies", "holds", "ends", "leases", "sdks", "http", "grpc", "gateways", "idle", "dropin", "memory", "eviction", "trace", sizingPart}

// selectParts reads -only.
func selectParts(only string, quick bool) (map[string]bool, error) {
	selected := make(map[string]bool)
	for i, part := range parts {
		selected[part] = only == "" && part != sizingPart && (!quick || i < 2)
	}
	if only == "" {
		return selected, nil
	}
	for part := range strings.SplitSeq(only, ",") {
		if _, ok := selected[part]; !ok {
			return nil, fmt.Errorf("only: %q is none of %s", part, strings.Join(parts, ", "))
		}
		selected[part] = true
	}
	// The rates of the open-loop rows are derived from measured peaks.
	selected["throughput"] = selected["throughput"] || selected["latency"] || selected["overload"]
	return selected, nil
}

// locate finds the source tree and the programs, and builds Headgate.
func (b *bench) locate(ctx context.Context) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	b.root = filepath.Dir(strings.TrimSpace(string(mod)))
	b.bin.redisCell = os.Getenv("BENCH_REDIS_CELL")
	b.bin.throttlecrab = os.Getenv("BENCH_THROTTLECRAB")
	b.bin.envoyRatelimit = os.Getenv("BENCH_ENVOY_RATELIMIT")
	b.bin.nginx = installed("nginx", "/usr/sbin/nginx")
	b.bin.envoy = installed(filepath.Join(b.root, "examples/envoy/.venv/bin/envoy"))
	for _, program := range []*string{&b.bin.redisCell, &b.bin.throttlecrab, &b.bin.envoyRatelimit, &b.bin.nginx, &b.bin.envoy, &b.bin.headgate} {
		// Servers run in a directory of their own, so paths must be absolute.
		if strings.Contains(*program, "/") {
			if *program, err = filepath.Abs(*program); err != nil {
				return fmt.Errorf("locate %s: %w", *program, err)
			}
		}
	}
	for _, program := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w (Debian: apt install redis-server redis-tools)", err)
		}
	}
	if b.bin.headgate != "" {
		return nil
	}
	b.bin.headgate, err = subprocess.Build(filepath.Join(b.root, "bin"), "-trimpath")
	return err
}

// installed returns the first of some programs that is there, or "".
func installed(programs ...string) string {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	return ""
}

// measure runs the selected parts. A part that fails is missing from the
// report, with a note, and the others go on; an interrupt ends them all. The
// report is nil only when nothing could be measured.
func (b *bench) measure(ctx context.Context, selected map[string]bool) (*report, error) {
	rep := &report{When: time.Now(), Quick: b.quick, Machine: describeMachine(b.root),
		Runs: b.runs, RunTime: b.runTime, Long: b.long}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return nil, fmt.Errorf("create a working directory: %w", err)
	}
	defer os.RemoveAll(dir)
	b.peers, rep.Notes = peers(b.bin)
	if b.quick {
		b.peers = slices.DeleteFunc(b.peers, func(p *peer) bool { return p.extra })
		rep.Notes = []string{"a quick run leaves out the peers without a target"}
	}
	defer b.stopPeers()
	var failed error
	for _, step := range []struct {
		part string
		do   func() error
	}{
		{"throughput", func() error { return b.startPeers(ctx, dir) }},
		{"throughput", func() (err error) { rep.Throughput, err = b.measureThroughput(ctx); return err }},
		{"latency", func() (err error) { rep.Latency, err = b.measureLatency(ctx, rep.Throughput); return err }},
		{"overload", func() (err error) { rep.Overload, err = b.measureOverload(ctx, rep.Throughput); return err }},
		{"throughput", func() error { b.stopPeers(); return nil }}, // the rest wants an idle machine
		{"latency", func() error {
			if b.quick {
				return nil
			}
			rows, err := b.measureClusterLatency(ctx, dir, rep.Throughput)
			rep.Latency = append(rep.Latency, rows...)
			return err
		}},
		{"replication", func() (err error) { rep.Replication, err = b.measureReplication(ctx, dir); return err }},
		{"failover", func() (err error) { rep.Failover, err = b.measureFailover(ctx, dir); return err }},
		{"decision", func() (err error) { rep.Decisions, err = b.measureDecisions(ctx); return err }},
		{"check", func() (err error) { rep.Checks, err = b.measureChecks(ctx, dir); return err }},
		{"policies", func() (err error) { rep.Policies, err = b.measurePolicies(ctx, dir); return err }},
		{"holds", func() (err error) { rep.Holds, err = b.measureHolds(ctx, dir); return err }},
		{"ends", func() (err error) { rep.Ends, err = b.measureEnds(ctx, dir); return err }},
		{"leases", func() (err error) { rep.Leases, err = b.measureLeases(ctx, dir); return err }},
		{"sdks", func() error {
			rows, notes, err := b.measureSDKs(ctx)
			rep.SDKs, rep.Notes = rows, append(rep.Notes, notes...)
			return err
		}},
		{"http", func() (err error) { rep.HTTP, err = b.measureHTTP(ctx, dir); return err }},
		{"grpc", func() (err error) { rep.GRPC, err = b.measureGRPC(ctx, dir); return err }},
		{"gateways", func() (err error) { rep.Gateways, err = b.measureGateways(ctx, dir); return err }},
		{"idle", func() (err error) { rep.Idle, err = b.measureIdle(ctx, dir); return err }},
		{"dropin", func() (err error) { rep.DropIn, err = b.measureDropIn(ctx, dir); return err }},
		{"memory", func() (err error) { rep.Memory, err = b.measureMemory(ctx, dir); return err }},
		{"eviction", func() (err error) { rep.Eviction, err = b.measureEviction(ctx, dir); return err }},
		{"trace", func() (err error) { rep.Trace, err = b.replayTrace(ctx); return err }},
		{sizingPart, func() (err error) { rep.Sizing, err = b.measureSizing(ctx, dir); return err }},
	} {
		if !selected[step.part] || ctx.Err() != nil {
			continue
		}
		if err := step.do(); err != nil {
			err = fmt.Errorf("%s: %w", step.part, err)
			b.logf("%v", err)
			first, _, _ := strings.Cut(err.Error(), "\n")
			rep.Notes = append(rep.Notes, "incomplete: "+first)
			failed = errors.Join(failed, err)
			if step.part == "throughput" { // the next two rest on it
				selected["latency"], selected["overload"] = false, false
			}
		}
	}
	rep.Took = time.Since(rep.When).Round(time.Second)
	rep.Targets = rep.targets()
	return rep, errors.Join(failed, ctx.Err())
}

// startPeers starts and fills all servers.
func (b *bench) startPeers(ctx context.Context, dir string) error {
	for _, p := range b.peers {
		if err := b.startPeer(ctx, dir, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startPeer(ctx context.Context, dir string, p *peer) error {
	proc, err := p.start(dir)
	if err != nil {
		return err
	}
	p.process = proc
	if p.prepare != nil {
		if err := p.prepare(p); err != nil {
			return err
		}
	}
	b.logf("%s: filling", p.label)
	return b.fill(ctx, p)
}

func (b *bench) stopPeers() {
	for _, p := range b.peers {
		p.process.stop()
		p.process = nil
	}
}

func (b *bench) peer(name string) *peer {
	for _, p := range b.peers {
		if p.name == name {
			return p
		}
	}
	panic("no peer " + name) // the always present ones only are asked for
}

func (b *bench) logf(format string, args ...any) { fmt.Fprintf(b.progress, format+"\n", args...) }
