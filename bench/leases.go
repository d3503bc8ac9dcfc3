package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/askers"
)

// leasesReport is what leases cost and save.
type leasesReport struct {
	// Lease is RL.LEASE of one key that has leaseHolders holders, Limit is RL.LIMIT of it.
	Lease []cost `json:"lease"`
	Limit []cost `json:"limit"`
	// Saved are processes that ask for as much as their limit has.
	Saved []savedRow `json:"saved"`
	// Second and Minute are leaseClients on one limit, which holds the units of a second or of
	// a minute. Plain are as many that ask for each call. All are by decision.
	Second []cost `json:"leased_of_a_second"`
	Minute []cost `json:"leased_of_a_minute"`
	Plain  []cost `json:"plain"`
	// Idle is the server's processor time per second without calls.
	Idle time.Duration `json:"idle_cpu_ns"`
	// Local are decisions of the client.
	Local   []benchmarkRow `json:"local"`
	Schemes []schemeRow    `json:"schemes"`
	Floods  []*floodRow    `json:"floods"`
}

// savedRow is what became of the calls of savers processes.
type savedRow struct {
	Rate     float64 `json:"calls_per_second_each"`
	Asked    int64   `json:"asked"`
	Admitted int64   `json:"admitted"`
	Sent     int64   `json:"sent"`
}

func (r *savedRow) saved() float64 { return 100 * (1 - float64(r.Sent)/float64(max(r.Asked, 1))) }

// benchmarkRow is a benchmark of clients/go.
type benchmarkRow struct {
	Keys   int     `json:"keys"`
	Nanos  float64 `json:"ns"`
	P99    float64 `json:"p99_ns"`
	Allocs float64 `json:"allocs"`
}

// schemeRow is what clients admit beyond a limit of schemeUnits per second, by the leases
// of textbooks and by ours.
type schemeRow struct {
	Clients  int    `json:"clients"`
	Block    int64  `json:"textbook_block"`
	Textbook excess `json:"textbook"`
	Ours     excess `json:"ours"`
}

// excess is how many units were admitted, and how many of them no bucket had.
type excess struct {
	Admitted int64 `json:"admitted"`
	TooMuch  int64 `json:"too_much"`
}

func (e excess) percent() float64 { return 100 * float64(e.TooMuch) / float64(max(e.Admitted, 1)) }

const (
	leaseHolders = 1000
	savers       = 4
	// leaseClients ask leaseRate times per second each, in leaseProcesses processes: the
	// machine has two cores.
	leaseClients, leaseProcesses = 100, 4
	leaseRate                    = 1000
	// leaseWarm is how long demands settle before they are measured.
	leaseWarm = 3 * time.Second
	leaseRun  = 10 * time.Second
	// schemeUnits is a limit per second, schemeLoad is what is asked for: in waves, so that
	// clients have their blocks when the bucket is full again.
	schemeUnits, schemeLoad = 1000, 3600
	schemeWave              = 2 * time.Second
	schemeRun               = 20 * time.Second
)

// measureLeases measures all of them on one server.
func (b *bench) measureLeases(ctx context.Context, dir string) (*leasesReport, error) {
	rep := &leasesReport{}
	p, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return rep, err
	}
	defer p.stop()
	if err := b.measureLeaseCalls(ctx, p, rep); err != nil {
		return rep, err
	}
	bin, err := askers.Build(dir)
	if err != nil {
		return rep, err
	}
	ask := func(name string, n int, c askers.Config) (askers.Result, cost, error) {
		c.Nodes, c.Key, c.Period = []string{p.addr}, name, cmp.Or(c.Period, time.Second)
		return asked(ctx, p, bin, n, c)
	}
	for _, rate := range []float64{100, 1000, 10_000} {
		r, _, err := ask(fmt.Sprint("saved:", rate), savers, askers.Config{Units: int64(savers * rate), Rate: rate, Warm: leaseWarm, For: leaseWarm + leaseRun})
		if err != nil {
			return rep, err
		}
		row := savedRow{rate, r.Asked, r.Admitted, r.Sent}
		rep.Saved = append(rep.Saved, row)
		b.logf("%d processes at %.0f/s each: %.2f %% of the calls saved, %d of %d admitted", savers, rate, row.saved(), r.Admitted, r.Asked)
	}
	before, err := p.cpu()
	if err != nil {
		return rep, err
	}
	time.Sleep(leaseWarm)
	after, err := p.cpu()
	if err != nil {
		return rep, err
	}
	rep.Idle = time.Duration(float64(after-before) / leaseWarm.Seconds())
	for range max(3, b.runs-2) {
		for _, v := range []struct {
			name   string
			scheme askers.Scheme
			period time.Duration
			to     *[]cost
		}{
			{"leases of a second's limit", askers.Leases, time.Second, &rep.Second},
			{"leases of a minute's limit", askers.Leases, time.Minute, &rep.Minute},
			{"calls", askers.Plain, time.Second, &rep.Plain},
		} {
			r, c, err := ask(v.name, leaseProcesses, askers.Config{
				Units: int64(leaseClients * leaseRate * v.period.Seconds()), Period: v.period, Scheme: v.scheme,
				Clients: leaseClients / leaseProcesses, Rate: leaseRate, Warm: leaseWarm, For: leaseWarm + 2*b.runTime,
			})
			if err != nil {
				return rep, err
			}
			*v.to = append(*v.to, c)
			b.logf("%d clients, %s: %.0f decisions/s, %.3f µs CPU of the server each, %d commands", leaseClients, v.name, c.Rate, micros(c.CPU), r.Sent)
		}
	}
	for _, v := range []struct{ clients, block int }{{4, schemeUnits / 4}, {100, schemeUnits / 100}} {
		row := schemeRow{Clients: v.clients, Block: int64(v.block)}
		for _, s := range []struct {
			scheme askers.Scheme
			to     *excess
		}{{askers.Textbook, &row.Textbook}, {askers.Leases, &row.Ours}} {
			c := askers.Config{
				Units: schemeUnits, Scheme: s.scheme, Block: row.Block, Clients: v.clients, Rate: schemeLoad / float64(v.clients), Wave: schemeWave, For: schemeRun,
				Log: filepath.Join(dir, fmt.Sprint("scheme", v.clients, s.scheme)),
			}
			if _, _, err := ask(c.Log, 1, c); err != nil {
				return rep, err
			}
			if *s.to, err = excessOf(c.Log); err != nil {
				return rep, err
			}
		}
		rep.Schemes = append(rep.Schemes, row)
		b.logf("%d clients: the textbook's leases admit %d of %d too much, ours %d of %d", v.clients, row.Textbook.TooMuch, row.Textbook.Admitted, row.Ours.TooMuch, row.Ours.Admitted)
	}
	p.stop()
	if rep.Floods, err = b.measureFloods(ctx, dir); err != nil {
		return rep, err
	}
	measured, err := b.goBenchmark(ctx, "clients/go", runtime.NumCPU(), "^BenchmarkLocal$", "keys")
	for _, m := range measured {
		rep.Local = append(rep.Local, benchmarkRow{m.n, m.nanos, m.p99, m.allocs})
		b.logf("local decisions, %d keys: %.0f ns, p99 %.0f ns", m.n, m.nanos, m.p99)
	}
	return rep, err
}

// measureLeaseCalls measures both commands in turns. A holder has one connection, as its
// requests must come in order.
func (b *bench) measureLeaseCalls(ctx context.Context, p *process, rep *leasesReport) error {
	lease := newStream(p, [][]string{{"RL.LEASE", "leased", "1000000000", "1", "ID", streamKey, "SEQ", streamTime, "WANT", "10", "HELD", "3"}}, leaseHolders, 0)
	lease.apart = true
	limit := newStream(p, [][]string{{"RL.LIMIT", "limited", "1000000000", "1"}}, 1, 0)
	return b.takeTurns(ctx, []*checkServer{{stream: lease, label: "RL.LEASE", to: &rep.Lease}, {stream: limit, label: "RL.LIMIT", to: &rep.Limit}})
}

// asked runs n processes on one server. The cost is by decision, after they have settled.
func asked(ctx context.Context, p *process, bin string, n int, c askers.Config) (sum askers.Result, by cost, err error) {
	var running []*askers.Process
	for range n {
		a, err := askers.Start(bin, c)
		if err != nil {
			return sum, by, err
		}
		running = append(running, a)
		defer context.AfterFunc(ctx, func() { _ = a.Kill() })()
	}
	time.Sleep(c.Warm)
	before, err := p.cpu()
	if err != nil {
		return sum, by, err
	}
	from := time.Now()
	time.Sleep(c.For - c.Warm - 100*time.Millisecond)
	took := time.Since(from)
	after, err := p.cpu()
	if err != nil {
		return sum, by, err
	}
	for _, a := range running {
		r, err := a.Result()
		if err != nil {
			return sum, by, err
		}
		sum.Asked, sum.Admitted, sum.Sent, sum.Errors = sum.Asked+r.Asked, sum.Admitted+r.Admitted, sum.Sent+r.Sent, sum.Errors+r.Errors
	}
	if sum.Errors > sum.Asked/100 {
		return sum, by, fmt.Errorf("%d of %d calls failed", sum.Errors, sum.Asked)
	}
	by.Rate = float64(sum.Asked) / (c.For - c.Warm).Seconds()
	by.CPU = time.Duration(float64(after-before) / (by.Rate * took.Seconds()))
	return sum, by, nil
}

// excessOf judges the log of a scheme.
func excessOf(path string) (e excess, err error) {
	log, err := askers.Read(path)
	if err != nil {
		return e, err
	}
	l := &oracle.Leased{Units: schemeUnits, Period: time.Second, Callers: []oracle.LeaseCaller{{Log: log}}, Events: []oracle.LeaseEvent{{Name: "waves"}}}
	_, results := oracle.Leases(l)
	return excess{int64(len(log.Admitted)), results[0].Extra}, nil
}

func (r *leasesReport) targets() []target {
	var list []target
	ours, theirs := median(r.Lease, costRate), median(r.Limit, costRate)
	list = append(list, target{
		Name:  fmt.Sprintf("RL.LEASE of one key with %d holders, pipeline 16, against RL.LIMIT of one key", leaseHolders),
		Value: ours / theirs, Unit: "x", Floor: 0.5, Goal: 0.8,
		Detail: fmt.Sprintf("%.0f/s against %.0f/s; server CPU %.2f µs against %.2f µs", ours, theirs, micros(median(r.Lease, costCPU)), micros(median(r.Limit, costCPU)))})
	bounds := map[float64][2]float64{100: {90, 95}, 1000: {98, 99}, 10_000: {99.5, 99.9}}
	for _, s := range r.Saved {
		list = append(list, target{
			Name:  fmt.Sprintf("calls saved by leases, %d processes at %.0f/s each on a limit of that sum", savers, s.Rate),
			Value: s.saved(), Unit: " %", Floor: bounds[s.Rate][0], Goal: bounds[s.Rate][1],
			Detail: fmt.Sprintf("%d commands for %d calls, %.1f %% of them admitted", s.Sent, s.Asked, 100*float64(s.Admitted)/float64(max(s.Asked, 1)))})
	}
	for _, v := range []struct {
		of     string
		leased []cost
	}{{"second", r.Second}, {"minute", r.Minute}} {
		list = append(list, target{
			Name:  fmt.Sprintf("server CPU per decision, %d clients at %d/s together on one limit by the %s: calls' over leases'", leaseClients, leaseClients*leaseRate, v.of),
			Value: cpuRatio(r.Plain, v.leased), Unit: "x", Floor: 20, Goal: 100,
			Detail: fmt.Sprintf("%.2f µs at %.0f/s, all that these clients get, against %.3f µs at %.0f/s; %.0f ms per second without calls",
				micros(median(r.Plain, costCPU)), median(r.Plain, costRate), micros(median(v.leased, costCPU)), median(v.leased, costRate), r.Idle.Seconds()*1000)})
	}
	for _, l := range r.Local {
		t := target{
			Name:  fmt.Sprintf("local decision in Go, all cores, %d keys: p99", l.Keys),
			Value: l.P99, Unit: " ns", Floor: 1000, Goal: 100, AtMost: true, Detail: fmt.Sprintf("%.0f ns by throughput, %.0f allocations", l.Nanos, l.Allocs)}
		if l.Allocs > 0 { // none is allowed, however fast
			t.Floor, t.Goal = 0, 0
		}
		list = append(list, t)
	}
	for _, s := range r.Schemes {
		list = append(list, target{
			Name:  fmt.Sprintf("%d clients with leases on %d/s, in waves: admitted too much", s.Clients, schemeUnits),
			Value: s.Ours.percent(), Unit: " %", AtMost: true,
			Detail: fmt.Sprintf("%.1f %% with the leases of textbooks, blocks of %d", s.Textbook.percent(), s.Block)})
	}
	for _, f := range r.Floods {
		list = append(list, f.target())
	}
	return list
}

func (r *leasesReport) write(line func(string, ...any)) {
	line("\n## Leases of textbooks and of Headgate, limit of %d per second\n\n| clients | block of the textbook | its units admitted | too much | Headgate's units admitted | too much |\n|---|---|---|---|---|---|", schemeUnits)
	for _, s := range r.Schemes {
		line("| %d | %d | %d | %d | %d | %d |", s.Clients, s.Block, s.Textbook.Admitted, s.Textbook.TooMuch, s.Ours.Admitted, s.Ours.TooMuch)
	}
}
