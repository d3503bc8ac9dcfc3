package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// holdsReport is what holds and calls with an ID cost.
type holdsReport struct {
	// Check is RL.CHECK of a policy of heldLimits limits. Held alternates RL.RESERVE with
	// RL.COMMIT of what it held. Named is the check with a new ID in each call.
	Check []cost `json:"check"`
	Held  []cost `json:"reserve_and_commit"`
	Named []cost `json:"check_with_id"`
	// HeldLive and NamedLive are how many records there are at the end, settled ones
	// included.
	HeldLive  float64      `json:"reserve_and_commit_records"`
	NamedLive float64      `json:"check_with_id_records"`
	Memory    *holdsMemory `json:"memory,omitempty"`
}

// holdsMemory is how many bytes a process grows by when each of many callers calls once:
// by calls alone, and by calls that are held.
type holdsMemory struct {
	Holds   int   `json:"holds"`
	Charged int64 `json:"charged_bytes"`
	Held    int64 `json:"held_bytes"`
	// Accounted is the difference that the server itself tells (INFO used_memory).
	Accounted int64 `json:"accounted_bytes"`
}

func (m *holdsMemory) perHold() float64 { return float64(m.Held-m.Charged) / float64(m.Holds) }

// holdsExpiry is what calls of other callers waited for before holds end that all end
// in one second, and while they are settled.
type holdsExpiry struct {
	Where  string       `json:"where"`
	Holds  int          `json:"holds"`
	Before *load.Result `json:"before"`
	During *load.Result `json:"during"`
	// Settled is the time from their end until nothing was held any more.
	Settled time.Duration `json:"settled_ns"`
}

// delay is by how much longer the slowest call took.
func (x *holdsExpiry) delay() time.Duration {
	return max(x.During.Latency.Max-x.Before.Latency.Max, 0)
}

const (
	// heldLimits is how many limits the policy of the rows has.
	heldLimits = 3
	// endArrivals is the rate of the calls beside the holds that end: one a
	// millisecond.
	endArrivals = 1000
	// endClusterHolds is how many end on a cluster, whose three nodes share the
	// machine.
	endClusterHolds = 250_000
	// fillAllowance is how long making one may take, at most, for each node.
	fillAllowance = 25 * time.Microsecond
)

// held are the commands of one step, a hold and its settlement. The hold has an ID, so
// that nobody has to read it from the reply.
func held(id string) [][]string {
	reserve := append([]string{"RL.RESERVE"}, checkCall("p")[1:]...)
	return [][]string{append(reserve, "ID", id), {"RL.COMMIT", "p;" + id, "COST", "1"}}
}

// named is a check with an ID.
func named(id string) [][]string { return [][]string{append(checkCall("p"), "ID", id)} }

// measureHolds measures calls that are held or have an ID, and their memory, on servers
// of their own.
func (b *bench) measureHolds(ctx context.Context, dir string) (*holdsReport, error) {
	rep := &holdsReport{}
	if err := b.measureHeldCalls(ctx, dir, rep); err != nil {
		return rep, err
	}
	var err error
	rep.Memory, err = b.measureHeldMemory(ctx, dir)
	return rep, err
}

// measureHeldCalls measures checks, holds and calls with an ID in turns.
func (b *bench) measureHeldCalls(ctx context.Context, dir string, rep *holdsReport) error {
	var servers []*checkServer
	defer func() {
		for _, s := range servers {
			s.process.stop()
		}
	}()
	for _, v := range []struct {
		label            string
		commands, filled [][]string
		to               *[]cost
	}{
		{"RL.CHECK", [][]string{checkCall("p")}, nil, &rep.Check},
		{"RL.RESERVE, RL.COMMIT", held(streamTime), held(streamKey), &rep.Held},
		{"RL.CHECK with ID", named(streamTime), named(streamKey), &rep.Named},
	} {
		s, err := b.startChecks(ctx, dir, v.label, checkPolicy(heldLimits), checkCall("p"), v.to)
		if err != nil {
			return err
		}
		servers = append(servers, s)
		if v.filled != nil { // to the bound, where each new record makes one go
			s.stream = newStream(s.process, v.filled, uint64(b.keys), 0)
			s.groups = checkTenants
			if err := s.fill(ctx); err != nil {
				return err
			}
		}
		s.stream = newStream(s.process, v.commands, uint64(b.keys), 0)
		s.groups = checkTenants
	}
	if err := b.takeTurns(ctx, servers); err != nil {
		return err
	}
	var err, other error
	rep.HeldLive, err = servers[1].process.holds(ctx)
	rep.NamedLive, other = servers[2].process.holds(ctx)
	return errors.Join(err, other)
}

// holds returns how many records of holds a server has.
func (p *process) holds(ctx context.Context) (float64, error) { return p.metric(ctx, "headgate_holds") }

// measureHeldMemory has each of half of the callers call once, on a server that holds
// nothing and on one that holds all.
func (b *bench) measureHeldMemory(ctx context.Context, dir string) (*holdsMemory, error) {
	m := &holdsMemory{Holds: b.keys / 2}
	for _, v := range []struct {
		command []string
		to      *int64
		sign    int64
	}{
		{checkCall("p"), &m.Charged, -1},
		{append([]string{"RL.RESERVE"}, append(checkCall("p")[1:], "TTL", "1h")...), &m.Held, 1},
	} {
		p, err := startHeadgate(dir, b.bin.headgate)
		if err != nil {
			return nil, err
		}
		defer p.stop()
		if err := p.setPolicy("p", checkPolicy(heldLimits)); err != nil {
			return nil, err
		}
		used, rss, err := p.memory()
		if err != nil {
			return nil, err
		}
		s := newStream(p, [][]string{v.command}, uint64(m.Holds), 0)
		s.groups = checkTenants
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if _, err = p.ask("MEMORY", "PURGE"); err != nil {
			return nil, err
		}
		usedAfter, rssAfter, err := p.memory()
		if err != nil {
			return nil, err
		}
		*v.to = rssAfter - rss
		m.Accounted += v.sign * (usedAfter - used)
	}
	b.logf("holds: %.0f bytes each, %.0f of them accounted", m.perHold(), float64(m.Accounted)/float64(m.Holds))
	return m, nil
}

// measureEnds has holds end on one server, and on the leader of three.
func (b *bench) measureEnds(ctx context.Context, dir string) ([]*holdsExpiry, error) {
	p, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	one, err := b.measureEnd(ctx, "one node", p, b.keys, fillAllowance)
	if err != nil {
		return nil, err
	}
	p.stop()
	c, err := startCluster(dir, "holds", b.bin.headgate)
	if err != nil {
		return []*holdsExpiry{one}, err
	}
	defer c.stop()
	leader, err := c.settle()
	if err != nil {
		return []*holdsExpiry{one}, err
	}
	three, err := b.measureEnd(ctx, "leader of three", leader.process, min(b.keys, endClusterHolds), nodes*fillAllowance)
	if err != nil {
		return []*holdsExpiry{one}, err
	}
	return []*holdsExpiry{one, three}, nil
}

// measureEnd has holds end in one second, and asks for checks of other callers before
// and meanwhile.
func (b *bench) measureEnd(ctx context.Context, where string, p *process, holds int, allowance time.Duration) (*holdsExpiry, error) {
	x := &holdsExpiry{Where: where, Holds: holds}
	for _, name := range []string{"p", "other"} {
		if err := p.setPolicy(name, checkPolicy(heldLimits)); err != nil {
			return nil, err
		}
	}
	b.logf("%s: %d holds", where, holds)
	s := newStream(p, [][]string{append([]string{"RL.RESERVE"}, append(checkCall("p")[1:], "TTL", streamLeft+"ms")...)}, uint64(holds), 0)
	s.groups = checkTenants
	quiet := 2 * b.runTime
	s.end = time.Now().Add(time.Duration(holds)*allowance + quiet + 3*time.Second)
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	if left := time.Until(s.end); left < quiet+time.Second {
		return nil, fmt.Errorf("%s: %s are left when the last of %d holds is there", where, left, holds)
	}
	if _, err := p.ask("MEMORY", "PURGE"); err != nil { // or the collector's next cycle falls into one half
		return nil, err
	}
	reply, err := p.ask("RL.RESERVE", "p", "user", lastHold, "tenant", "t", "ID", lastHold, "TTL", fmt.Sprintf("%dms", time.Until(s.end.Add(lastBehind)).Milliseconds()))
	if err != nil || reply.Type != '*' {
		return nil, fmt.Errorf("RL.RESERVE of the last hold: %s: %w", reply.Str, err)
	}
	time.Sleep(time.Until(s.end.Add(-quiet - time.Second)))
	if x.Before, err = b.askOthers(ctx, p, quiet); err != nil {
		return nil, err
	}
	settled := make(chan error, 1)
	go func() { settled <- x.await(ctx, p, s.end) }()
	if x.During, err = b.askOthers(ctx, p, quiet+2*time.Second); err != nil {
		return nil, err
	}
	err = <-settled
	b.logf("%s: %d holds that end in one second are settled within %.1f s; the slowest call %.1f ms, before %.1f ms", where, holds,
		x.Settled.Seconds(), micros(x.During.Latency.Max)/1000, micros(x.Before.Latency.Max)/1000)
	return x, err
}

// lastHold is the ID of a hold that ends lastBehind the others, in a second of its own,
// and so is settled last.
const (
	lastHold   = "last"
	lastBehind = 1500 * time.Millisecond
)

// await waits until the last hold is settled.
func (x *holdsExpiry) await(ctx context.Context, p *process, end time.Time) error {
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		reply, err := p.ask("RL.EXPLAIN", "HOLD", "p;"+lastHold)
		if err != nil {
			return err
		}
		for i, e := range reply.Elems {
			if e.Str == "state" && reply.Elems[i+1].Str == "expired" {
				x.Settled = time.Since(end)
				return nil
			}
		}
	}
	return ctx.Err()
}

// askOthers asks for checks of a policy that holds nothing.
func (b *bench) askOthers(ctx context.Context, p *process, d time.Duration) (*load.Result, error) {
	res, err := load.Run(ctx, load.Config{
		Addr: p.addr, Clients: 4, Pipeline: 1, Keys: 1000, Seed: 1, Rate: endArrivals, Duration: d,
		Command: []string{"RL.CHECK", "other", "user", "u" + load.Placeholder, "tenant", "t"},
	})
	if err == nil && res.Failures() > 0 {
		err = fmt.Errorf("load %s: errors %v", p.name, res.Errors)
	}
	return res, err
}
