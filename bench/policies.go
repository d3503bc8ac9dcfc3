package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/internal/respclient"
)

// policiesReport is what many policies with many overrides cost.
type policiesReport struct {
	Loads []loadRow `json:"loads"`
	// Many are checks of one of manyPolicies at random. One are checks of a single
	// policy, which has as many overrides as they have together. Plain are checks of a
	// single policy without overrides.
	Many  []cost   `json:"many"`
	One   []cost   `json:"one"`
	Plain []cost   `json:"plain"`
	Edit  *editRow `json:"edit,omitempty"`
	// Cluster is the load of the file on the leader of three.
	Cluster *takeOverRow `json:"cluster,omitempty"`
}

// loadRow is a server that is given all policies and overrides.
type loadRow struct {
	File      time.Duration `json:"file_ns"`
	Overrides time.Duration `json:"overrides_ns"`
	// Resident is how much the process has grown once it has given back what it
	// needs no more, Loaded before that, both in bytes.
	Resident int64 `json:"resident_bytes"`
	Loaded   int64 `json:"loaded_bytes"`
}

// editRow is the load of all connections without and with changes of one of the
// policies after the other.
type editRow struct {
	Before []*load.Result `json:"before"`
	During []*load.Result `json:"during"`
	// Changes have the time of each change.
	Changes []time.Duration `json:"changes_ns"`
}

// takeOverRow is what calls waited for, at most, while all policies were loaded.
type takeOverRow struct {
	Load     time.Duration `json:"load_ns"`
	Leader   *load.Result  `json:"leader"`
	Follower *load.Result  `json:"follower"`
}

const (
	manyPolicies  = 10_000
	manyOverrides = 100_000
	// editEvery is the time between two changes under load: a pause of half a
	// millisecond for each is a hundredth of the time.
	editEvery = 50 * time.Millisecond
	// takeOverArrivals is the rate of checks during the load on a cluster.
	takeOverArrivals = 500
)

// policyName is the name of one of the policies.
func policyName(n int) string { return fmt.Sprintf("team%012d/api", n) }

// policyText is what one of the policies says: no counter is full again before its
// next call, and none is exhausted.
func policyText(n int) string {
	return fmt.Sprintf("{on_failure: closed, limits: {user: {by: user, rate: 10_000/day}, ip: {by: ip, rate: 10/m}, "+
		"key: {by: key, tiers: {attribute: tier, free: %d/day, pro: 100_000/day burst 1000, default: 10_000/day}}}}", 10_000+n)
}

// policiesFile is a file of the first n policies.
func policiesFile(n int) string {
	var b strings.Builder
	b.WriteString("policies:\n")
	for i := range n {
		fmt.Fprintf(&b, "  %s: %s\n", policyName(i), policyText(i))
	}
	return b.String()
}

// policiesCall is a check of a random caller by the policy that is his: two limits
// apply.
func policiesCall(policy string) []string {
	return []string{"RL.CHECK", policy, "user", "u" + streamKey, "key", "k" + streamKey, "tier", "free"}
}

// anyPolicy is the name of the policy of a random caller.
const anyPolicy = "team" + streamGroup + "/api"

func newPoliciesStream(p *process, policy string, keys int) *stream {
	s := newStream(p, [][]string{policiesCall(policy)}, uint64(keys), 0)
	s.groups = manyPolicies
	return s
}

// loadTimeout bounds the load of a file.
const loadTimeout = time.Minute

// loadPolicies loads the file of n policies.
func (p *process) loadPolicies(n int) (time.Duration, error) {
	text := policiesFile(n)
	begin := time.Now()
	reply, err := respclient.Do(p.addr, loadTimeout, "RL.POLICY", "LOAD", text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("RL.POLICY LOAD: %w", err)
	case reply.Type == '-' || len(reply.Elems) != n:
		return 0, fmt.Errorf("RL.POLICY LOAD of %d policies: %d versions, %s", n, len(reply.Elems), reply.Str)
	}
	return time.Since(begin), nil
}

// loadOverrides sets n overrides of a policy, or of anyPolicy, one after the other on one
// connection, as `redis-cli --pipe` does. It waits until a check is answered under them.
func (p *process) loadOverrides(ctx context.Context, name string, n int) (time.Duration, error) {
	s := newStream(p, [][]string{{"RL.OVERRIDE", "SET", name, "LIMIT", "key", "RATE", "30_000/day", "key", "k" + streamKey}}, uint64(n), 0)
	s.groups = manyPolicies
	begin := time.Now()
	if err := s.fill(ctx); err != nil {
		return 0, err
	}
	if name == anyPolicy {
		name = policyName((n - 1) % manyPolicies)
	}
	key := fmt.Sprintf("k%012d", n-1)
	reply, err := p.ask("RL.CHECK", name, "key", key, "PEEK")
	if err != nil {
		return 0, err
	}
	if reply.Type != '*' || reply.Elems[1].Int != 30_000 {
		return 0, fmt.Errorf("RL.CHECK %s of %s with an override: %s %v", name, key, reply.Str, reply.Elems)
	}
	return time.Since(begin), nil
}

// measurePolicies measures many policies.
func (b *bench) measurePolicies(ctx context.Context, dir string) (*policiesReport, error) {
	rep := &policiesReport{}
	var many, one, plain *process
	defer func() {
		many.stop()
		one.stop()
		plain.stop()
	}()
	for range max(3, b.runs-2) { // the last server is that of the other rows
		many.stop()
		var err error
		if many, err = startHeadgate(dir, b.bin.headgate); err != nil {
			return rep, err
		}
		row, err := many.load(ctx)
		if err != nil {
			return rep, err
		}
		rep.Loads = append(rep.Loads, row)
		b.logf("%d policies: %.2f s, %d overrides: %.2f s; %d MB, %d MB", manyPolicies, row.File.Seconds(), manyOverrides, row.Overrides.Seconds(), row.Loaded>>20, row.Resident>>20)
	}
	for _, p := range []**process{&one, &plain} {
		var err error
		if *p, err = startHeadgate(dir, b.bin.headgate); err != nil {
			return rep, err
		}
		if err := (*p).setPolicy(policyName(0), policyText(0)); err != nil {
			return rep, err
		}
	}
	if _, err := one.loadOverrides(ctx, policyName(0), manyOverrides); err != nil {
		return rep, err
	}
	servers := []*checkServer{
		{many, newPoliciesStream(many, anyPolicy, b.keys), fmt.Sprintf("one of %d policies", manyPolicies), &rep.Many},
		{one, newPoliciesStream(one, policyName(0), b.keys), "the only policy, with as many overrides", &rep.One},
		{plain, newPoliciesStream(plain, policyName(0), b.keys), "the only policy, without overrides", &rep.Plain},
	}
	for _, s := range servers {
		b.logf("%s: filling", s.label)
		if err := s.fill(ctx); err != nil {
			return rep, err
		}
	}
	if err := b.takeTurns(ctx, servers); err != nil {
		return rep, err
	}
	one.stop()
	plain.stop()
	var err error
	if rep.Edit, err = b.measureEdits(ctx, many); err != nil {
		return rep, err
	}
	many.stop()
	rep.Cluster, err = b.measureTakeOver(ctx, dir)
	return rep, err
}

// load gives a fresh server all policies and overrides.
func (p *process) load(ctx context.Context) (row loadRow, err error) {
	before, err := p.rss()
	if err != nil {
		return row, err
	}
	if row.File, err = p.loadPolicies(manyPolicies); err != nil {
		return row, err
	}
	if row.Overrides, err = p.loadOverrides(ctx, anyPolicy, manyOverrides); err != nil {
		return row, err
	}
	if row.Loaded, err = p.rss(); err != nil {
		return row, err
	}
	if _, err = p.ask("MEMORY", "PURGE"); err != nil {
		return row, err
	}
	if row.Resident, err = p.rss(); err != nil {
		return row, err
	}
	row.Loaded -= before
	row.Resident -= before
	return row, nil
}

// measureEdits loads a server from all connections, alone and while policies
// change, in turns.
func (b *bench) measureEdits(ctx context.Context, p *process) (*editRow, error) {
	row := &editRow{}
	run := func() (*load.Result, error) {
		// One caller of each policy: load draws one number a command.
		res, err := load.Run(ctx, load.Config{
			Addr: p.addr, Clients: clients, Pipeline: streamPipeline, Keys: manyPolicies, Seed: 1, Warmup: b.runTime / 4, Duration: b.runTime,
			Command: []string{"RL.CHECK", "team" + load.Placeholder + "/api", "user", "u" + load.Placeholder, "key", "k" + load.Placeholder, "tier", "free"},
		})
		if err == nil && res.Failures() > 0 {
			err = fmt.Errorf("load %s: errors %v", p.name, res.Errors)
		}
		return res, err
	}
	for range b.runs {
		res, err := run()
		if err != nil {
			return row, err
		}
		row.Before = append(row.Before, res)
		editing, stop := context.WithCancel(ctx)
		edited := make(chan error, 1)
		go func() { edited <- row.edit(editing, p) }()
		res, err = run()
		stop()
		if err = errors.Join(err, <-edited); err != nil {
			return row, err
		}
		row.During = append(row.During, res)
		b.logf("full load: p99 %.0f µs, while policies change %.0f µs", micros(p99(row.Before[len(row.Before)-1])), micros(p99(res)))
	}
	return row, nil
}

// edit changes one policy after the other until ctx ends.
func (r *editRow) edit(ctx context.Context, p *process) error {
	tick := time.NewTicker(editEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n := len(r.Changes) + 1
		begin := time.Now()
		if err := p.setPolicy(policyName(n%manyPolicies), policyText(n%manyPolicies+n)); err != nil {
			return err
		}
		r.Changes = append(r.Changes, time.Since(begin))
	}
}

// measureTakeOver loads the file on the leader of three. Meanwhile the leader and a
// follower check a policy that the file leaves alone.
func (b *bench) measureTakeOver(ctx context.Context, dir string) (*takeOverRow, error) {
	c, err := startCluster(dir, "policies", b.bin.headgate)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	leader, err := c.settle()
	if err != nil {
		return nil, err
	}
	if err := leader.setPolicy("p", checkPolicy(3)); err != nil {
		return nil, err
	}
	row := &takeOverRow{}
	type result struct {
		*load.Result
		error
	}
	ask := func(n *node, to chan<- result) {
		res, err := load.Run(ctx, load.Config{
			Addr: n.addr, Clients: 8, Pipeline: 1, Keys: 1000, Seed: 1, Rate: takeOverArrivals, Warmup: b.runTime / 2, Duration: takeOverTime,
			Command: []string{"RL.CHECK", "p", "user", "u" + load.Placeholder, "tenant", "t"},
		})
		if err == nil && res.Failures() > 0 {
			err = fmt.Errorf("load %s: errors %v", n.id, res.Errors)
		}
		to <- result{res, err}
	}
	atLeader, atFollower := make(chan result, 1), make(chan result, 1)
	go ask(leader, atLeader)
	go ask(c.followers(leader)[0], atFollower)
	time.Sleep(b.runTime)
	row.Load, err = leader.loadPolicies(manyPolicies - 1) // there is one
	one, other := <-atLeader, <-atFollower
	if err = errors.Join(err, one.error, other.error); err != nil {
		return nil, err
	}
	row.Leader, row.Follower = one.Result, other.Result
	b.logf("%d policies loaded on the leader of three in %.2f s: a check waits at most %.0f ms there, %.0f ms at a follower", manyPolicies, row.Load.Seconds(),
		row.Leader.Latency.Max.Seconds()*1000, row.Follower.Latency.Max.Seconds()*1000)
	return row, nil
}

// takeOverTime is longer than the load of the file takes on all nodes.
const takeOverTime = 8 * time.Second
