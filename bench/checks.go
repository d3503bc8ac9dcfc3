package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/bench/load"
)

// checkReport is what RL.CHECK costs beside CL.THROTTLE.
type checkReport struct {
	Throttle []cost      `json:"throttle"`
	Checks   []*checkRow `json:"checks"`
	// Lua is a script on Redis that checks three buckets as one.
	Lua []cost `json:"redis_lua_three_buckets"`
	// Engine is a check in process, from attributes to the decision.
	Engine []engineCheck `json:"engine"`
	// OpenLoop is a check of ten limits at checkArrivals.
	OpenLoop []*load.Result `json:"open_loop"`
	Ceiling  *ceilingRow    `json:"ceiling,omitempty"`
}

// checkRow is a policy of so many limits.
type checkRow struct {
	Limits int    `json:"limits"`
	Check  []cost `json:"check"`
}

type engineCheck struct {
	Limits int     `json:"limits"`
	Nanos  float64 `json:"ns"`
	Allocs float64 `json:"allocs"`
}

// ceilingRow compares a policy that has a limit of all calls together with two others.
// One lacks that limit. The other has a limit by tenant in its place, and so takes as
// many steps.
type ceilingRow struct {
	With    []cost `json:"with"`
	Without []cost `json:"without"`
	Instead []cost `json:"by_tenant_instead"`
}

// checkLimits are the numbers of limits of the rows.
var checkLimits = []int{1, 3, 10}

const (
	// checkArrivals is the rate of the open loop, the one that peers publish.
	checkArrivals = 500
	// checkTenants is how many tenants the callers of the rows have.
	checkTenants = 1000
	// ceilingConnections is how many connections meet at the limit of all.
	ceilingConnections = 64
)

// checkPolicy is a policy of n limits that all apply to each call: by user, by user
// of a tenant and by tenant in turn. They admit every call, so that every call
// writes all of them; and no counter is full again, and so forgotten, before its
// next call.
func checkPolicy(n int) string {
	by := []struct {
		attributes string
		rate       int // a day
	}{{"user", limit}, {"[tenant, user]", limit}, {"tenant", 1_000_000}}
	var limits []string
	for i := range n {
		v := by[i%len(by)]
		limits = append(limits, fmt.Sprintf("l%d: {by: %s, rate: %d/day}", i, v.attributes, v.rate+i))
	}
	return "{limits: {" + strings.Join(limits, ", ") + "}}"
}

// checkCall is a call of a random caller.
func checkCall(policy string) []string {
	return []string{"RL.CHECK", policy, "user", "user" + streamKey, "tenant", "t" + streamGroup}
}

// checkServer is a server with a stream to it.
type checkServer struct {
	*process
	*stream
	label string
	to    *[]cost
}

// startChecks starts a server with a policy "p", none if that is empty, and has
// each caller of a command call once.
func (b *bench) startChecks(ctx context.Context, dir, label, policy string, command []string, to *[]cost) (*checkServer, error) {
	b.logf("%s: filling", label)
	p, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return nil, err
	}
	if policy != "" {
		if err := p.setPolicy("p", policy); err != nil {
			p.stop()
			return nil, err
		}
	}
	s := newStream(p, [][]string{command}, uint64(b.keys), 0)
	s.groups = checkTenants
	if err := s.fill(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return &checkServer{p, s, label, to}, nil
}

// startThreeBuckets starts Redis with threeBucketsLua, whose keys and limits are
// those of checkPolicy(3).
func (b *bench) startThreeBuckets(ctx context.Context, dir string, to *[]cost) (*checkServer, error) {
	const label = "Redis + Lua, three buckets"
	b.logf("%s: filling", label)
	p, err := startRedis(dir, "redis-three-buckets")
	if err != nil {
		return nil, err
	}
	sha, err := p.ask("SCRIPT", "LOAD", threeBucketsLua)
	if err != nil {
		p.stop()
		return nil, err
	}
	command := []string{"EVALSHA", sha.Str, "3", "user:" + streamKey, "tenant:" + streamGroup + ":user:" + streamKey, "tenant:" + streamGroup, "1"}
	for _, rate := range []int{limit, limit + 1, 1_000_002} { // a day
		command = append(command, strconv.Itoa(rate), strconv.FormatFloat(float64(rate)/86400, 'g', -1, 64))
	}
	s := newStream(p, [][]string{command}, uint64(b.keys), 0)
	s.groups = checkTenants
	if err := s.fill(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return &checkServer{p, s, label, to}, nil
}

// setPolicy makes a text the policy of a name.
func (p *process) setPolicy(name, text string) error {
	reply, err := p.ask("RL.POLICY", "SET", name, text)
	if err == nil && reply.Type == '-' {
		err = fmt.Errorf("RL.POLICY SET %s: %s", name, reply.Str)
	}
	return err
}

// measureChecks measures RL.CHECK on servers of their own, which take turns.
func (b *bench) measureChecks(ctx context.Context, dir string) (*checkReport, error) {
	rep := &checkReport{}
	var servers []*checkServer
	defer func() {
		for _, s := range servers {
			s.process.stop()
		}
	}()
	throttle := throttleArgs("CL.THROTTLE", 1)("key:"+streamKey, daily(limit))
	s, err := b.startChecks(ctx, dir, "CL.THROTTLE", "", throttle, &rep.Throttle)
	if err != nil {
		return rep, err
	}
	servers = append(servers, s)
	for _, n := range checkLimits {
		row := &checkRow{Limits: n}
		s, err := b.startChecks(ctx, dir, fmt.Sprintf("RL.CHECK, %d limits", n), checkPolicy(n), checkCall("p"), &row.Check)
		if err != nil {
			return rep, err
		}
		servers = append(servers, s)
		rep.Checks = append(rep.Checks, row)
	}
	ten := servers[len(servers)-1]
	lua, err := b.startThreeBuckets(ctx, dir, &rep.Lua)
	if err != nil {
		return rep, err
	}
	servers = append(servers, lua)
	if err := b.takeTurns(ctx, servers); err != nil {
		return rep, err
	}
	for range b.runs {
		// load draws callers alone.
		res, err := b.load(ctx, ten.process, checkArrivals, []string{"RL.CHECK", "p", "user", "user" + load.Placeholder, "tenant", "t000000000007"})
		if err != nil {
			return rep, err
		}
		rep.OpenLoop = append(rep.OpenLoop, res)
		b.logf("RL.CHECK, ten limits, %d/s: p99 %.0f µs", checkArrivals, micros(p99(res)))
	}
	for _, s := range servers {
		s.process.stop()
	}
	if rep.Ceiling, err = b.measureCeiling(ctx, dir); err != nil {
		return rep, err
	}
	measured, err := b.goBenchmark(ctx, "bench", 1, "^BenchmarkCheck$", "limits")
	for _, m := range measured {
		rep.Engine = append(rep.Engine, engineCheck{m.n, m.nanos, m.allocs})
		b.logf("check in process, %d limits: %.0f ns", m.n, m.nanos)
	}
	return rep, err
}

// takeTurns runs the streams of servers in turns; the first round is not counted.
func (b *bench) takeTurns(ctx context.Context, servers []*checkServer) error {
	for round := -1; round < max(3, b.runs-2); round++ {
		for _, s := range servers {
			c, err := s.run(ctx, b.runTime/2)
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if round < 0 {
				continue
			}
			*s.to = append(*s.to, c)
			b.logf("%-44s %9.0f/s  %6.2f µs CPU", s.label, c.Rate, micros(c.CPU))
		}
	}
	return nil
}

// measureCeiling measures what a counter costs that every call meets.
func (b *bench) measureCeiling(ctx context.Context, dir string) (*ceilingRow, error) {
	row := &ceilingRow{}
	const two = "user: {by: user, rate: 100/day}, pair: {by: [tenant, user], rate: 101/day}"
	var servers []*checkServer
	defer func() {
		for _, s := range servers {
			s.process.stop()
		}
	}()
	for _, v := range []struct {
		label, policy string
		to            *[]cost
	}{
		{"with a limit of all calls", "{limits: {" + two + ", all: {rate: 1_000_000_000/day}}}", &row.With},
		{"without it", "{limits: {" + two + "}}", &row.Without},
		{"with one by tenant in its place", "{limits: {" + two + ", tenant: {by: tenant, rate: 1_000_000/day}}}", &row.Instead},
	} {
		s, err := b.startChecks(ctx, dir, v.label, v.policy, checkCall("p"), v.to)
		if err != nil {
			return row, err
		}
		s.conns = ceilingConnections
		servers = append(servers, s)
	}
	return row, b.takeTurns(ctx, servers)
}
