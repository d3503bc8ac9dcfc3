package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/raftlog"
)

// Modes of durability.
const (
	Async = "async"
	Sync  = "sync"
)

// maxUnacked is what async clusters are started with: the bound that the oracle holds them to. It is the lease of the
// fast profile, their default.
const maxUnacked = 250 * time.Millisecond

// Options are what a person chooses for a run.
type Options struct {
	Seed   uint64
	Mode   string
	Rounds int          // how often the harm is done; 0 is the scenario's own number
	Brief  bool         // without Rounds: a third of the scenario's own number, at least what does each kind of harm once
	Rate   float64      // calls per second; 0 is the scenario's own
	Dir    string       // for histories and logs; must exist
	Bin    string       // headgate
	Args   []string     // further arguments of headgate serve
	Log    func(string) // told what happens; may be nil
}

// Run is a scenario while it runs.
type Run struct {
	Options
	Scenario *Scenario

	rnd     *rand.Rand
	epoch   time.Time
	cluster *cluster.Cluster
	history history.History
	codes   map[string]int // of error replies

	turn int // of the groups: see killLeader

	codesToo []string // that are expected in this scenario, besides those that always are

	// mu guards what follows.
	mu       sync.Mutex
	losses   []oracle.Loss
	outages  []oracle.Outage
	findings []oracle.Finding
	extra    oracle.Extra

	// planned are the times in which leadership was handed over in order, which loses nothing. unforeseen counts the
	// leaders lost without the run's doing.
	planned    []oracle.Loss
	unforeseen int
	wrongClock bool // the times in the nodes' logs are wrong
	allDown    bool // all nodes were down at once

	machine   *cluster.Machine
	marks     *marks
	load      *load.Load               // that offer has started last
	data      *data                    // in the load; may be nil
	audits    *pairAudit               // of the data; nil without
	checks    *checks                  // of policies, in the load; may be nil
	bills     *bills                   // in the load; may be nil
	billers   int                      // of them; 0 is fewBillers
	gateways  *gateways                // in the load; may be nil
	leases    *leased                  // nil without
	counted   map[oracle.Counter]int64 // by policies, in the end
	flushed   history.Call             // of all keys, under load; zero if there was none
	compared  int                      // times that the nodes' tables were compared under way
	lossTimes []time.Duration          // of killed leaders: see marks
	live      oracle.Liveness

	ends []func() // called when the nodes have ended and the run is judged

	prompt float64
	harms  []int64 // when leaders were harmed
	gaps   []time.Duration
	tables string
}

// errSkipped is returned by a scenario that this machine cannot run.
var errSkipped = errors.New("skipped")

func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkipped, fmt.Sprintf(format, args...))
}

// now is the time of the run's history, in ns.
func (r *Run) now() int64 { return int64(time.Since(r.epoch)) }

// note records an event.
func (r *Run) note(format string, args ...any) {
	e := history.Event{At: r.now(), Text: fmt.Sprintf(format, args...)}
	r.mu.Lock()
	r.history.Events = append(r.history.Events, e)
	r.mu.Unlock()
	if r.Log != nil {
		r.Log(fmt.Sprintf("%9.3f s  %s", time.Duration(e.At).Seconds(), e.Text))
	}
}

// add adds a finding to the verdict.
func (r *Run) add(f oracle.Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, f)
}

// expect adds a finding about one fact.
func (r *Run) expect(ok bool, check, format string, args ...any) {
	r.add(oracle.Finding{Check: check, OK: ok, Text: fmt.Sprintf(format, args...)})
}

// lose notes that any node, as leader, may have lost what it decided between two times.
func (r *Run) lose(from, to int64) { r.loseOf("", from, to) }

// loseOf is lose for one node; any if its name is empty.
func (r *Run) loseOf(node string, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, oracle.Loss{From: from, To: to, Group: oracle.AnyGroup, Node: node})
}

// loseResumed is lose for a leader that goes on after a pause.
func (r *Run) loseResumed(from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses = append(r.losses, oracle.Loss{From: from, To: to, Group: oracle.AnyGroup, Resumed: true})
}

// down and up bracket the time in which the run itself keeps a node from answering.
func (r *Run) down(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outages = append(r.outages, oracle.Outage{Node: uint8(node), From: r.now()})
}

func (r *Run) up(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.outages {
		if o := &r.outages[i]; int(o.Node) == node && o.To == 0 {
			o.To = r.now()
		}
	}
}

// bound is what the mode allows to be admitted beyond the limits. group returns the group of a key.
func (r *Run) bound(group func(key uint32) int) func(uint32, []history.Call) int64 {
	if r.Mode == Sync {
		return oracle.None
	}
	return oracle.AsyncBound(r.losses, maxUnacked, group)
}

// groupOf returns the group of a key of the history, AnyGroup if the number of groups is not known.
func (r *Run) groupOf(key uint32) int {
	if r.cluster == nil || r.cluster.Groups == 0 {
		return oracle.AnyGroup
	}
	return oracle.GroupOf(r.history.Keys[key].Name, r.cluster.Groups)
}

// anyGroup is for counters of policies, whose group depends on the policy.
func anyGroup(uint32) int { return oracle.AnyGroup }

// offered is a load that can be ended: see load.Load.
type offered interface {
	Stop(h *history.History) (codes map[string]int)
}

// stop ends a load; the history's keys are those of the keyspace.
func (r *Run) stop(l offered, keys *load.Keyspace) {
	for code, n := range l.Stop(&r.history) {
		r.codes[code] += n
	}
	r.history.Length = time.Since(r.epoch)
	r.history.Keys = keys.Keys(r.history.Length)
}

// unplanned adds the leaders that were lost without the run's doing, which happens when the machine is too busy for the
// nodes' timeouts.
func (r *Run) unplanned() error {
	// A loss explains an election that ends at most this much later.
	soon := int64(r.profileSlack() * float64(3*time.Second))
	elections, err := r.cluster.Elections()
	found := unexplained(elections, r.epoch, r.losses, r.planned, soon)
	r.losses = append(r.losses, found...)
	r.unforeseen = len(found)
	return err
}

// unexplained returns a loss for each election that none of the run's losses, and no planned change, explains. The leader
// was lost at some time before the next began to serve. One loss explains an election in each group that its node led,
// and no more: a busy cluster may lose further leaders meanwhile.
func unexplained(elections []cluster.Election, epoch time.Time, losses, planned []oracle.Loss, soon int64) (found []oracle.Loss) {
	const reign = int64(5 * time.Second) // as far back as the loss is looked for
	type cause struct{ loss, group int }
	explained := make(map[cause]bool)
	last := make(map[int]int64) // election, by group
	for _, e := range elections {
		to := int64(e.At.Sub(epoch))
		before := last[e.Group]
		last[e.Group] = to
		if slices.ContainsFunc(planned, func(p oracle.Loss) bool { return p.From <= to && to <= p.To }) {
			continue
		}
		known := false
		for j, l := range losses {
			by := cause{j, e.Group}
			if !explained[by] && !l.Resumed && (l.Node == "" || l.Node == e.Before) && l.To >= to-soon && l.From <= to {
				explained[by], known = true, true
				break
			}
		}
		if !known {
			found = append(found, oracle.Loss{From: max(to-reign, before), To: to + int64(maxUnacked), Group: e.Group})
		}
	}
	return found
}

// judge runs the checks that every history is put to.
func (r *Run) judge() {
	r.machine.Stop()
	for _, s := range r.machine.Standstills {
		r.history.StoodStill(int64(s.From.Sub(r.epoch)), int64(s.To.Sub(r.epoch)))
	}
	if r.cluster != nil && !r.wrongClock {
		if err := r.unplanned(); err != nil {
			r.expect(false, "logs", "%v", err)
		}
	}
	f, extra := oracle.Budgets(&r.history, r.bound(r.groupOf))
	r.add(f)
	r.extra = extra
	if r.Mode == Sync {
		r.add(oracle.Linear(&r.history, r.Dir))
	}
	r.measureGaps()
	r.judgeLosses()
	r.judgeApart()
	r.judgePolicies()
	r.judgeBills()
	if r.data != nil {
		r.judgeGateways()
	}
	r.live = oracle.MeasureLiveness(&r.history, r.outages, prompt, r.gaps)
	r.add(oracle.Live(r.live, r.liveness(), r.slack(), r.stalled()))
	f, r.prompt = oracle.Promptness(&r.history, r.outages, prompt, 0)
	r.add(f)
	for code, n := range r.codes {
		// Everything else is a command that the server did not understand, or answered in disorder.
		if !expected[code] && !slices.Contains(r.codesToo, code) {
			r.expect(false, "errors", "%d replies %s", n, code)
		}
	}
}

// judgeOwners stops all nodes, and reads whose keys are in the logs of which Raft group.
func (r *Run) judgeOwners() {
	r.cluster.Stop()
	groups := 0
	var unread error
	for _, n := range r.cluster.Nodes {
		g, err := raftlog.Groups(n.Data)
		groups, unread = max(groups, g), cmp.Or(unread, err)
	}
	o := oracle.NewOwners(groups)
	for _, n := range r.cluster.Nodes {
		err := cluster.Payloads(n.Data, func(group int, payload []byte) error { return o.Payload(n.Name, group, payload) })
		unread = cmp.Or(unread, err)
	}
	r.add(o.Finding(unread))
}

// expected are the error codes that a cluster may answer while it is being harmed.
var expected = map[string]bool{"CLUSTERDOWN": true, "TRYAGAIN": true, "UNCERTAIN": true, "LOADING": true}

// Execute runs a scenario and returns its report. It returns an error only if no verdict can be given, which says
// nothing about Headgate.
func Execute(s *Scenario, o Options) (*Report, error) {
	if !s.supports(o.Mode) {
		return nil, fmt.Errorf("%s has no mode %q", s.Name, o.Mode)
	}
	o.Dir = filepath.Join(o.Dir, fmt.Sprintf("%s-%s-%d", s.Name, o.Mode, o.Seed))
	if err := os.RemoveAll(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if o.Rounds == 0 {
		o.Rounds = s.rounds(o.Brief)
	}
	if o.Rate == 0 {
		o.Rate = s.Rate
	}
	r := &Run{
		Options: o, Scenario: s, epoch: time.Now(),
		rnd:   rand.New(rand.NewPCG(o.Seed, 0)),
		codes: make(map[string]int),
	}
	r.machine = cluster.WatchMachine(r.pids)
	defer func() {
		r.marks.close()
		if r.cluster != nil {
			r.cluster.Close()
		}
		for _, end := range r.ends {
			end()
		}
	}()
	err := s.run(r)
	r.machine.Stop() // which judge has not done where the scenario has broken off
	if errors.Is(err, errSkipped) {
		return &Report{run: r, Skipped: strings.TrimPrefix(err.Error(), errSkipped.Error()+": ")}, nil
	}
	if err != nil {
		if r.cluster == nil {
			return nil, err
		}
		// A cluster that does not come back is what the scenario is about.
		r.expect(false, "recovery", "%v", err)
	}
	if r.cluster != nil {
		r.judgeOwners()
	}
	if err := r.history.Save(r.Dir); err != nil {
		return nil, err
	}
	rep := &Report{run: r}
	return rep, rep.save()
}
