package scenario

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/askers"
	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/internal/respclient"
)

// The leased limits of a run. The demand for the tight one is twice what it has, by processes that all hold back for
// most of a wave and then spend what they have at once. The easy one is never used up.
const (
	tightKey, easyKey     = "leased:tight", "leased:easy"
	tightUnits, easyUnits = 1000, 100_000
	tightHolders          = 4
	tightRate, easyRate   = 450, 100 // calls per second of a process
	wave                  = 2 * time.Second
	leaseTTL              = 2 * time.Second
	easyTTL               = 10 * time.Second // longer than an election
	sightEvery            = 20 * time.Millisecond
	pauseFor              = 3 * time.Second        // longer than a block lasts
	allKnow               = 500 * time.Millisecond // until all processes use another limit
	// textbookBlock is what a holder of the textbook's leases takes at once.
	textbookBlock = 200
)

// leased are processes with leases in a run.
type leased struct {
	r      *Run
	bin    string
	offset int64 // askers.Now at the run's epoch
	policy bool  // the tight limit is a policy's

	tight [tightHolders]*leasing // that run; those before are in all
	all   []*leasing

	events []oracle.LeaseEvent

	stop   chan struct{}
	wg     sync.WaitGroup
	sights []oracle.LeaseSight // of the tight limit

	results []oracle.LeaseResult
}

// leasing is a process, and its links to the nodes.
type leasing struct {
	*askers.Process
	links []*linkfault.Proxy
}

func (p *leasing) set(f linkfault.Faults) {
	for _, l := range p.links {
		l.Set(f)
	}
}

// leaseBuild is the processes' program.
var leaseBuild build

// newLeased builds the processes' program.
func (r *Run) newLeased() (*leased, error) {
	bin, err := leaseBuild.get(r, "asker", askers.Build)
	if err != nil {
		return nil, err
	}
	l := &leased{r: r, bin: bin, offset: askers.Now() - r.now(), stop: make(chan struct{})}
	l.events = append(l.events, oracle.LeaseEvent{Name: eventLoad, At: l.since(r.now())})
	return l, nil
}

// startLeased starts the processes.
func (r *Run) startLeased(scheme askers.Scheme) (*leased, error) {
	l, err := r.newLeased()
	if err != nil {
		return nil, err
	}
	for i := range l.tight {
		if l.tight[i], err = l.start(askers.Config{Key: tightKey, Units: tightUnits, TTL: leaseTTL, Scheme: scheme, Block: textbookBlock, Rate: tightRate, Wave: wave}); err != nil {
			return l, err
		}
	}
	for _, c := range []askers.Config{
		{Key: tightKey, Units: tightUnits, Scheme: askers.Plain, Rate: tightRate / 2, Wave: wave},
		{Key: easyKey, Units: easyUnits, TTL: easyTTL, Rate: easyRate},
		{Key: easyKey, Units: easyUnits, TTL: easyTTL, Rate: easyRate},
	} {
		if _, err := l.start(c); err != nil {
			return l, err
		}
	}
	l.wg.Go(l.look)
	return l, nil
}

// start starts a process.
func (l *leased) start(c askers.Config) (*leasing, error) {
	p := &leasing{}
	for _, n := range l.r.cluster.Nodes {
		link, err := linkfault.New("127.0.0.1:0", n.Addr)
		if err != nil {
			return nil, err
		}
		p.links = append(p.links, link)
		c.Nodes = append(c.Nodes, link.Addr())
	}
	c.Period = time.Second
	c.Log = filepath.Join(l.r.Dir, fmt.Sprintf("asker%d.log", len(l.all)))
	var err error
	p.Process, err = askers.Start(l.bin, c)
	if err == nil {
		l.all = append(l.all, p)
	}
	return p, err
}

// look notes what the nodes say of the tight limit, one after the other.
func (l *leased) look() {
	ticker := time.NewTicker(sightEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		s := oracle.LeaseSight{Span: askers.Span{From: askers.Now()}}
		args := []string{"RL.EXPLAIN", tightKey}
		if l.policy {
			args = []string{"RL.EXPLAIN", "POLICY", leasedPolicy, "user", "looker"}
		}
		reply, err := respclient.Do(l.r.dial(i%len(l.r.cluster.Nodes)), patience, args...)
		s.To = askers.Now()
		if err != nil || len(reply.Elems) == 0 {
			continue // no leader
		}
		limit := &reply
		if l.policy {
			if limit = sharedLimit(&reply); limit == nil {
				continue
			}
		}
		s.Limit, s.Left, s.Out = pair(limit, "capacity").Int, pair(limit, "remaining").Int, pair(limit, "out").Int
		l.sights = append(l.sights, s)
	}
}

// end ends the processes.
func (l *leased) end() error {
	for _, p := range l.all {
		if p.Running() {
			if _, err := p.End(); err != nil {
				return err
			}
		}
	}
	close(l.stop)
	l.wg.Wait()
	return nil
}

// judge judges what the processes were admitted.
func (l *leased) judge() error {
	tight := &oracle.Leased{Epoch: l.offset, Units: tightUnits, Period: time.Second, Sights: l.sights, Events: l.events}
	windows := map[string]*oracle.Windowed{}
	var asked, refused int
	for _, p := range l.all {
		log, err := askers.Read(p.Log)
		if err != nil {
			return err
		}
		caller := oracle.LeaseCaller{Log: log, Plain: p.Scheme == askers.Plain}
		switch {
		case p.Key == tightKey || p.Policy != "":
			tight.Callers = append(tight.Callers, caller)
			continue
		case p.Windows != "":
			w := windows[p.Windows]
			if w == nil {
				w = &oracle.Windowed{Sliding: p.Windows == "sliding", Epoch: l.offset, Wall: wallOffset(), Units: p.Units, Period: p.Period}
				windows[p.Windows] = w
			}
			w.Callers = append(w.Callers, caller)
			continue
		}
		asked += len(log.Admitted)
		refused += len(log.Denied) + len(log.Errors)
	}
	if l.r.Mode == Async {
		for _, loss := range l.r.losses {
			loss.From, loss.To = loss.From+l.offset, loss.To+l.offset
			tight.Losses = append(tight.Losses, loss)
			for _, w := range windows {
				w.Losses = append(w.Losses, loss)
			}
		}
	}
	for _, w := range windows {
		l.r.add(oracle.Windows(w))
	}
	f, results := oracle.Leases(tight)
	l.r.add(f)
	l.results = results
	if asked == 0 {
		return nil
	}
	l.r.expect(refused == 0 || l.r.busy(), "holders", "%d calls of holders whose limit has room, %d of them were refused or denied", asked, refused)
	return nil
}

func (l *leased) close() {
	for _, p := range l.all {
		if p.Running() {
			p.Kill()
		}
		for _, link := range p.links {
			link.Close()
		}
	}
}

// leases harms processes with leases, and the nodes, in turn.
func leases(r *Run) error { return r.leased(askers.Leases) }

// textbookLeases has processes take blocks as textbooks say, which leave no room behind in the limit.
func textbookLeases(r *Run) error { return r.leased(askers.Textbook) }

func (r *Run) leased(scheme askers.Scheme) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	load := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	l, err := r.startLeased(scheme)
	if l != nil {
		r.leases = l
		defer l.close()
	}
	if err == nil {
		err = l.rounds(
			l.kill, l.pause, l.cut,
			func() error { return l.node(eventLeader, r.killLeader) },
			func() error { return l.node(eventRestart, r.restartAll) },
			func() error { return l.node(eventLeader, func() error { return r.pauseLeader(pauseFor) }) },
			func() error { return l.node(eventSnapshot, r.restore) },
			func() error { return l.tell(oracle.LeaseEvent{Name: eventReset}, "RL.RESET", tightKey) },
			l.lower,
			func() error { return l.tell(oracle.LeaseEvent{Name: eventDelete, Forgets: true}, "DEL", tightKey) },
		)
	}
	if err := r.finish(load, keys, err); err != nil {
		return err
	}
	return l.judge()
}

// rounds does the kinds of harm in turn, and ends the processes.
func (l *leased) rounds(kinds ...func() error) error {
	l.r.wait(4 * time.Second)
	for i := range l.r.Rounds {
		if err := kinds[i%len(kinds)](); err != nil {
			return err
		}
		l.r.wait(3 * time.Second)
	}
	return l.end()
}

// The events of the table in docs/leases.md.
const (
	eventLoad     = "any load, any number of clients, any timing"
	eventClient   = "a client is killed, hangs or is cut off"
	eventLeader   = "the leader is killed or hangs"
	eventRestart  = "all nodes are restarted, one after the other"
	eventSnapshot = "a node that has only a snapshot comes to lead"
	eventReset    = "`RL.RESET`"
	eventLower    = "a limit is lowered"
	eventDelete   = "`DEL`"
	eventEdit     = "a policy's limit is lowered, and raised again"
)

// since is a time in the run until now, as callers say it.
func (l *leased) since(from int64) askers.Span {
	return askers.Span{From: from + l.offset, To: l.r.now() + l.offset}
}

// ready waits until holders have held back for most of a wave, and so have much.
func (l *leased) ready() {
	const at = wave * 7 / 10
	time.Sleep((at - time.Duration(askers.Now())%wave + wave) % wave)
}

// harm does something to a holder that has much.
func (l *leased) harm(p *leasing, what string, do func() error) error {
	l.ready()
	l.r.note("%s a holder", what)
	e := oracle.LeaseEvent{Name: eventClient, At: l.since(l.r.now())}
	log, err := askers.Read(p.Log)
	if err != nil {
		return err
	}
	e.Lost = oracle.Holds(log, e.At)
	l.events = append(l.events, e)
	return do()
}

func (l *leased) holder() *leasing { return l.tight[l.r.rnd.IntN(len(l.tight))] }

// kill kills a holder, and starts a process in its place.
func (l *leased) kill() error {
	i := l.r.rnd.IntN(len(l.tight))
	if err := l.harm(l.tight[i], "kill", l.tight[i].Kill); err != nil {
		return err
	}
	l.r.wait(time.Second)
	c := l.tight[i].Config
	c.Nodes = nil
	var err error
	l.tight[i], err = l.start(c)
	return err
}

// pause stops a holder for longer than its block lasts.
func (l *leased) pause() error {
	p := l.holder()
	if err := l.harm(p, "stop", func() error { return p.Signal(syscall.SIGSTOP) }); err != nil {
		return err
	}
	time.Sleep(pauseFor)
	return p.Signal(syscall.SIGCONT)
}

// cut cuts a holder off from all nodes, by silence and then by closed connections.
func (l *leased) cut() error {
	for _, f := range []linkfault.Faults{linkfault.Hold, {Cut: true}} {
		p := l.holder()
		if err := l.harm(p, "cut off", func() error { p.set(f); return nil }); err != nil {
			return err
		}
		time.Sleep(pauseFor)
		p.set(linkfault.Faults{})
		l.r.wait(time.Second)
	}
	return nil
}

// node does something to the nodes.
func (l *leased) node(name string, do func() error) error {
	l.ready()
	l.events = append(l.events, oracle.LeaseEvent{Name: name, At: l.since(l.r.now())})
	return do()
}

// tell does something to the tight limit that makes it full.
func (l *leased) tell(e oracle.LeaseEvent, args ...string) error {
	n, err := l.r.leader()
	if err != nil {
		return err
	}
	l.ready()
	l.r.note("%s", strings.Join(args, " "))
	at := l.r.now()
	if _, err := l.r.do(n, args...); err != nil {
		return err
	}
	e.At, e.Units = l.since(at), tightUnits
	l.events = append(l.events, e)
	return nil
}

// lower lowers the limit and raises it again.
func (l *leased) lower() error {
	set := func(units int64) error {
		l.r.note("the limit is %d", units)
		for _, p := range l.all {
			if p.Key == tightKey && p.Running() {
				if err := p.SetUnits(units); err != nil {
					return err
				}
			}
		}
		return nil
	}
	l.events = append(l.events, oracle.LeaseEvent{Name: eventLower, At: l.since(l.r.now())})
	if err := set(tightUnits / 2); err != nil {
		return err
	}
	time.Sleep(leaseTTL + allKnow)
	l.events = append(l.events, oracle.LeaseEvent{At: l.since(l.r.now()), Units: tightUnits / 2})
	time.Sleep(2 * wave)
	at := l.r.now()
	if err := set(tightUnits); err != nil {
		return err
	}
	time.Sleep(allKnow)
	l.events = append(l.events, oracle.LeaseEvent{At: l.since(at), Units: tightUnits})
	return nil
}

// restore wipes a follower, which gets a snapshot, and has it lead.
func (r *Run) restore() error {
	leader, err := r.leader()
	if err != nil {
		return err
	}
	follower := r.cluster.Nodes[(leader.Index+1)%3]
	if err := r.wipe(leader, follower); err != nil {
		return err
	}
	_, err = r.lead(follower)
	return err
}

// LeasesTable is what was admitted beyond leased limits, in Markdown; empty if nothing was leased.
func LeasesTable(reports []*Report) string {
	var b strings.Builder
	for _, name := range []string{eventLoad, eventClient, eventLeader, eventRestart, eventSnapshot, eventReset, eventLower, eventEdit, eventDelete} {
		for _, mode := range both {
			for _, p := range reports {
				if l := p.run.leases; l == nil || p.run.Mode != mode || p.run.Scenario.Broken != nil || p.Skipped != "" {
					continue
				}
				for _, x := range p.run.leases.results {
					if x.Name != name || p.run.leases.policy != (name == eventEdit) {
						continue
					}
					lost := ""
					if name == eventClient {
						lost = fmt.Sprintf("%d units", x.Lost/int64(x.Times))
					}
					fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %s |\n", name, mode, x.Times, x.Extra, x.Bound, x.Unseen, lost)
				}
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "| event | durability | times | admitted too much | may be | unknown to the server | the client had |\n|---|---|---|---|---|---|---|\n" + b.String()
}
