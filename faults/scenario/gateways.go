package scenario

import (
	"fmt"
	"slices"
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
	for _, front := range []string{load.ByRoutes, load.ByDescriptors} {
		asked, decided := 0, 0
		for i := range g.all {
			if a := &g.all[i]; a.Front == front && !r.wasDown(a) {
				if asked++; a.Outcome == history.Admitted || a.Outcome == history.Denied {
					decided++
				}
			}
		}
		r.expect(float64(decided) >= decidedApart*float64(asked), "fronts", "%d of %d questions by %s were decided", decided, asked, front)
	}
}

// wasDown reports whether a question went to a node that the run had stopped.
func (r *Run) wasDown(a *history.Asked) bool {
	return oracle.Excused(&history.Call{Node: a.Node, Due: a.Start, End: a.End}, r.outages)
}

// judgeLocalGateways looks whether every question to a surviving node was decided, and 99 of 100 within a time.
func (r *Run) judgeLocalGateways(within time.Duration) {
	for _, front := range []string{load.ByRoutes, load.ByDescriptors} {
		var waits []int64
		var wrong []string
		for i := range r.gateways.all {
			a := &r.gateways.all[i]
			switch {
			case a.Front != front || r.wasDown(a):
				continue
			case a.Outcome != history.Admitted:
				wrong = append(wrong, fmt.Sprintf("%.3f s: %s%s%s", time.Duration(a.Start).Seconds(), a.Outcome, a.Refusal, a.Wrong))
			}
			waits = append(waits, a.End-a.Start)
		}
		slices.Sort(waits)
		if len(waits) == 0 {
			r.expect(false, "fronts", "nothing was asked by %s", front)
			continue
		}
		p99 := time.Duration(waits[len(waits)*99/100])
		r.expect(len(wrong) == 0 && p99 <= within, "fronts", "%d questions by %s, p99 %v, longest %v, %d not admitted%s", len(waits), front,
			p99.Round(time.Microsecond), time.Duration(waits[len(waits)-1]).Round(time.Microsecond), len(wrong), strings.Join(wrong[:min(len(wrong), 5)], "\n    "))
	}
}
