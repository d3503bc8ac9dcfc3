package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	// gatewaysOfEach front are in the load of every scenario with policies, and gatewayEvery is the time from one
	// question of one to its next. Two of them ask about one user, who lives for userLife and is denied in the end.
	gatewaysOfEach = 4
	gatewayEvery   = 100 * time.Millisecond
	gatewayLimit   = 50
	// gatewayPlenty denies nobody.
	gatewayPlenty = 1_000_000
)

// gateways ask about requests of their clients, by routes over HTTP and by descriptors over gRPC, in a load.
type gateways struct {
	gateways *load.Gateways
	all      []history.Asked
	used     map[oracle.GatewayUser]int64
}

// startGateways has gateways ask nodes; local: that answer on their shares when there is no leader.
func (r *Run) startGateways(nodes int, dial func(int) string, local bool) error {
	cfg := load.GatewayConfig{
		Gateways: gatewaysOfEach, Nodes: nodes, Redis: dial(0),
		HTTP: func(node int) string { return r.cluster.Ports(dial(node)).HTTP }, GRPC: func(node int) string { return r.cluster.Ports(dial(node)).GRPC },
		Epoch: r.epoch, Seed: r.Seed, Every: gatewayEvery, Life: userLife, Timeout: patience, Limit: gatewayLimit, Local: local,
	}
	if local {
		cfg.Limit, cfg.Gateways, cfg.Every = gatewayPlenty, 6, 10*time.Millisecond
	}
	g, err := load.NewGateways(cfg)
	if err != nil {
		return err
	}
	// A follower takes over what is new a moment after its commit.
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	r.gateways = &gateways{gateways: g}
	g.Start()
	return nil
}

// stop ends the questions; nil has none.
func (g *gateways) stop() {
	if g != nil {
		g.all = g.gateways.Stop()
	}
}

// pause has nothing asked until resume; nil asks nothing.
func (g *gateways) pause() {
	if g != nil {
		g.gateways.Pause()
	}
}

func (g *gateways) resume() {
	if g != nil {
		g.gateways.Resume()
	}
}

// readGateways reads what the counters of the questions hold; addr is the leader's.
func (r *Run) readGateways(addr string) error {
	g := r.gateways
	if g == nil {
		return nil
	}
	g.used = make(map[oracle.GatewayUser]int64)
	for i := range g.all {
		who := oracle.GatewayUser{Front: g.all[i].Front, User: g.all[i].User}
		if _, ok := g.used[who]; ok {
			continue
		}
		command := load.GatewayCounter(who.Front, who.User)
		reply, err := respclient.Do(addr, patience, command...)
		if err != nil {
			return fmt.Errorf("%v: %w", command, err)
		}
		g.used[who] = pair(&reply, "used").Int // nothing, if it is not there
	}
	return nil
}

// judgeGateways judges what gateways were told.
func (r *Run) judgeGateways() {
	g := r.gateways
	if g == nil {
		return
	}
	r.add(oracle.Gateways(g.all, gatewayLimit, r.flushed.End, load.GatewayCharged, g.used))
	for _, f := range r.fronts() {
		r.expect(float64(len(f.waits)) >= decidedApart*float64(f.asked), "fronts", "%d of %d questions by %s were decided", len(f.waits), f.asked, f.name)
	}
}

// front is what gateways were told by one front of the nodes that the run had not stopped.
type front struct {
	name  string
	asked int
	waits []time.Duration // for what was decided, ascending
	other []string        // all that was not admitted
}

// fronts returns what gateways were told; nothing if none asked.
func (r *Run) fronts() (all []front) {
	if r.gateways == nil {
		return nil
	}
	for _, name := range []string{load.ByRoutes, load.ByDescriptors} {
		f := front{name: name}
		for i := range r.gateways.all {
			a := &r.gateways.all[i]
			if a.Front != name || oracle.Excused(&history.Call{Node: a.Node, Due: a.Start, End: a.End}, r.outages) {
				continue
			}
			f.asked++
			if a.Outcome == history.Admitted || a.Outcome == history.Denied {
				f.waits = append(f.waits, time.Duration(a.End-a.Start))
			}
			if a.Outcome != history.Admitted {
				f.other = append(f.other, fmt.Sprintf("\n    %.3f s: %s%s%s", time.Duration(a.Start).Seconds(), a.Outcome, a.Refusal, a.Wrong))
			}
		}
		all = append(all, f)
	}
	return all
}

// judgeLocalGateways looks whether every question to a surviving node was admitted, and 99 of 100 within a time.
func (r *Run) judgeLocalGateways(within time.Duration) {
	for _, f := range r.fronts() {
		if len(f.waits) == 0 {
			r.expect(false, "fronts", "nothing was decided of %d questions by %s", f.asked, f.name)
			continue
		}
		p99 := oracle.Quantile(f.waits, .99)
		r.expect(len(f.other) == 0 && p99 <= within, "fronts", "%d questions by %s, p99 %v, longest %v, %d not admitted%s", f.asked, f.name,
			p99.Round(time.Microsecond), oracle.Quantile(f.waits, 1).Round(time.Microsecond), len(f.other), strings.Join(f.other[:min(len(f.other), 5)], ""))
	}
}
