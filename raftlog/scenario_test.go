package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/ledger"
)

// The scripts in testdata are histories of three nodes, a, b and c, without
// Raft, network or time. Commands say what Raft would do. Expectations are
// rewritten by go test ./raftlog -run TestScenarios -rewrite;
// testdata/README.md explains the commands.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := newSim(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

// sim is a cluster in which everything happens by command.
type sim struct {
	t     *testing.T
	nodes []*simNode
	log   []*raft.Log // committed
	keys  []string    // that some command has named
	count int         // of replies
	out   strings.Builder
}

// simNode is a node: log, replica, ledger and partition as in a process.
type simNode struct {
	name    string
	fsm     *fsm
	engine  *engine.Engine
	replica *engine.Replica
	ledger  *ledger.Ledger
	part    *partition.Partition
	session *engine.Session

	sent    [][]*raft.Log // batches that Raft has been given
	applied int           // of sim.log
	cutOff  bool
	since   uint64 // ticket of the beginning of the batch of commands; 0 for none
	round   uint64 // tickets that the round under way verifies
	grown   bool   // a set has been added to since the last cut
	taken   raft.FSMSnapshot
	takenAt int // of sim.log
	parked  []parked
	failed  error
}

// parked is a reply that waits.
type parked struct {
	name          string
	since, ticket uint64
}

const simStart = 1_800_000_000_000_000_000

// simLimit has no time in it: a window of an hour that does not pass.
var simLimit = algo.Limit{Algorithm: algo.Fixed, Limit: 10, Period: 3_600_000_000_000}

func newSim(t *testing.T) *sim {
	s := &sim{t: t}
	for _, name := range []string{"a", "b", "c"} {
		s.nodes = append(s.nodes, newSimNode(name))
	}
	return s
}

func newSimNode(name string) *simNode {
	clock, _ := engine.NewManualClock(simStart)
	n := &simNode{name: name, engine: engine.New(engine.Config{Shards: 4, Clock: clock})}
	n.ledger = ledger.New(ledger.Hooks{
		Release: func(upTo uint64, err error) { n.part.Release(upTo, err) },
		Ended: func(upTo uint64, undone bool) {
			if undone {
				n.part.Release(upTo, partition.ErrUndone)
			} else {
				n.part.Release(upTo, partition.ErrUncertain)
			}
		},
	})
	n.replica = n.engine.Replicate(n.ledger)
	n.part = partition.New(partition.Config{
		Engine: n.engine, Replication: simReplication{ledger: n.ledger}, Front: simFront{}, Logger: slog.New(slog.DiscardHandler),
	})
	n.session = n.engine.NewSession()
	c := &Config{NodeID: name, Ledger: n.ledger, Features: firstFormats, Logger: slog.New(slog.DiscardHandler)}
	n.fsm = newFSM(c, simMachine{n}, func() int64 { return simStart })
	n.fsm.fatal = func(err error) { n.failed = err }
	n.fsm.observe, n.fsm.retune = func() {}, func() {}
	n.fsm.now = func() int64 { return 1 }
	return n
}

// simMachine is the node's replica as the log drives it.
type simMachine struct{ n *simNode }

func (m simMachine) Permit(uint32)                      {}
func (m simMachine) Apply(b Batch) error                { return m.n.replica.Apply(b.Payloads, b.Clock) }
func (m simMachine) Lead(clock int64)                   { m.n.replica.Lead(clock) }
func (m simMachine) Depose()                            { m.n.replica.Depose() }
func (m simMachine) Cut(max int) ([][]byte, bool)       { return m.n.replica.Cut(max) }
func (m simMachine) Committed(clock int64)              { m.n.replica.Committed(clock) }
func (m simMachine) Now() int64                         { return m.n.replica.Now() }
func (m simMachine) Restore(r io.Reader, c int64) error { return m.n.replica.Restore(r, c) }
func (m simMachine) Snapshot() (Snapshot, error)        { return simSnapshot{m.n.replica.Snapshot()}, nil }

type simSnapshot struct{ *engine.Snapshot }

func (simSnapshot) Release() {}

// simReplication is what a partition asks of the cluster for its tickets.
type simReplication struct {
	partition.Replication
	ledger *ledger.Ledger
}

func (r simReplication) Ticket() uint64 { return r.ledger.Open() }
func (r simReplication) Since() uint64  { return r.ledger.Since() }
func (r simReplication) Await()         { r.ledger.Await() }

type simFront struct{ partition.Front }

func (simFront) Recheck() {}

// run executes a command and returns what it shows.
func (s *sim) run(d *datadriven.TestData) string {
	s.out.Reset()
	var args []string
	for _, a := range d.CmdArgs {
		args = append(args, a.Key)
	}
	if d.Cmd == "tables" {
		s.tables()
		return s.out.String()
	}
	if len(args) == 0 {
		d.Fatalf(s.t, "%s needs a node", d.Cmd)
	}
	n := s.node(args[0])
	args = append(args[1:], "", "")
	switch d.Cmd {
	case "lead":
		s.lead(n, number(s.t, args[0]))
	case "begin":
		n.since = n.ledger.Since()
	case "end":
		n.since = 0
	case "charge":
		s.decide(n, args[0], int64(number(s.t, args[1])), &algo.Options{})
	case "refund":
		s.decide(n, args[0], -int64(number(s.t, args[1])), &algo.Options{})
	case "add":
		s.add(n, args[0], int(number(s.t, args[1])))
	case "peek":
		s.decide(n, args[0], 1, &algo.Options{Peek: true})
	case "cut":
		s.cut(n, false)
	case "tick":
		s.cut(n, true)
	case "commit":
		s.commit(n, 0)
	case "commit-late": // Raft takes it in a later term
		s.commit(n, number(s.t, args[0]))
	case "lose":
		s.printf("under way and lost: %d", len(n.sent))
		n.sent = nil
	case "round":
		n.round = n.ledger.Round()
		s.printf("a round begins for tickets up to %d", n.round)
	case "round-answered":
		n.ledger.Verified(n.round, nil)
	case "round-failed":
		n.ledger.Verified(n.round, partition.ErrUnverified)
	case "cut-off":
		n.cutOff = true
	case "heal":
		n.cutOff = false
		s.deliver(n)
	case "depose":
		n.fsm.stop(nil)
	case "restart":
		s.restart(n)
	case "snapshot":
		var err error
		n.taken, err = n.fsm.Snapshot()
		require.NoError(s.t, err)
		n.takenAt = n.applied
	case "install":
		s.install(n, s.node(args[0]))
	default:
		d.Fatalf(s.t, "no such command: %s", d.Cmd)
	}
	s.releases()
	if s.out.Len() == 0 {
		return "ok\n"
	}
	return s.out.String()
}

func (s *sim) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *sim) node(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.name == name })
	require.GreaterOrEqual(s.t, i, 0, "no node %q", name)
	return s.nodes[i]
}

func number(t *testing.T, text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

// lead elects n. A leader has all that is committed applied before it serves.
func (s *sim) lead(n *simNode, term uint64) {
	s.deliver(n)
	if n.fsm.lead(term, func() bool { return true }) {
		s.printf("%s leads term %d", n.name, term)
	} else {
		s.printf("%s does not serve term %d", n.name, term)
	}
}

// decide makes a decision whose reply waits for its commit, as the front does.
func (s *sim) decide(n *simNode, key string, cost int64, o *algo.Options) {
	if !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
		slices.Sort(s.keys)
	}
	since := n.since
	if since == 0 {
		since = n.ledger.Since()
	}
	d, err := n.session.Decide(simStart, []byte(key), simLimit, cost, o)
	if errors.Is(err, engine.ErrSealed) {
		s.printf("%s does not decide", n.name)
		return
	}
	require.NoError(s.t, err)
	s.count++
	p := parked{fmt.Sprint("r", s.count), since, n.part.TakeTicket()}
	n.part.Await()
	n.parked = append(n.parked, p)
	verdict := "allowed"
	if !d.OK {
		verdict = "denied"
	}
	s.printf("%s: %s, %d left; parked under %d", p.name, verdict, d.Remaining, p.ticket)
}

// simLarge is less than a set of simMembers takes, and more than some of them.
const (
	simLarge   = 1000
	simMembers = 100
)

// add adds members to a set, and removes the oldest beyond simMembers.
func (s *sim) add(n *simNode, key string, members int) {
	if !slices.Contains(s.keys, key) {
		s.keys = append(s.keys, key)
		slices.Sort(s.keys)
	}
	v, err := n.session.Open(simStart, []byte(key), algo.SortedSet)
	if errors.Is(err, engine.ErrSealed) {
		s.printf("%s does not decide", n.name)
		return
	}
	require.NoError(s.t, err)
	defer v.Close()
	z := packed.NewSortedSet(v)
	last := 0.0
	if z.Len() > 0 {
		_, last = z.At(z.Len() - 1)
	}
	for range members {
		last++
		_, err := z.Put(fmt.Appendf(nil, "a member that has the number %v", last), last)
		require.NoError(s.t, err)
	}
	z.RemoveRange(0, max(z.Len()-simMembers, 0))
	n.grown = true
}

// cut gives Raft the next batch.
func (s *sim) cut(n *simNode, tick bool) {
	ticket := n.ledger.Open()
	b, ok := n.fsm.cut(1<<20, tick)
	switch {
	case ok:
	case n.ledger.Open() == ticket:
		s.printf("nothing is cut")
		return
	default:
		s.printf("ticket %d finds nothing", ticket)
		return
	}
	h := header{node: n.name, term: b.term, batch: b.batch, parts: uint64(len(b.parts)), clock: b.clock, level: b.level}
	var batch []*raft.Log
	bytes := 0
	for i, p := range b.parts {
		h.part = uint64(i)
		bytes += len(p)
		batch = append(batch, &raft.Log{Term: b.term, Type: raft.LogCommand, Data: encodeEntry(b.version, h, p)})
	}
	n.sent = append(n.sent, batch)
	what := "effects"
	switch {
	case bytes == 0:
		what = "no effects"
	case n.grown && bytes < simLarge:
		what = "a delta"
	case n.grown:
		what = "a whole set"
	}
	n.grown = false
	s.printf("ticket %d is batch %d of term %d, with %s", ticket, b.batch, b.term, what)
}

// commit commits the oldest batch that n has given to Raft, in the log's term
// if that is not 0, and delivers it.
func (s *sim) commit(n *simNode, term uint64) {
	require.NotEmpty(s.t, n.sent, "nothing is under way")
	for _, l := range n.sent[0] {
		l.Index = uint64(len(s.log) + 1)
		if term > 0 {
			l.Term = term
		}
		s.log = append(s.log, l)
	}
	n.sent = n.sent[1:]
	for _, n := range s.nodes {
		if !n.cutOff {
			s.deliver(n)
		}
	}
}

// deliver applies the committed entries that n has not applied.
func (s *sim) deliver(n *simNode) {
	served, fenced := n.fsm.serving.Load(), n.fsm.fenced.Load()
	n.fsm.ApplyBatch(s.log[n.applied:])
	n.applied = len(s.log)
	if served != 0 && n.fsm.serving.Load() == 0 && n.failed == nil {
		s.printf("%s learns that it leads no more", n.name)
	}
	if n.fsm.fenced.Load() > fenced {
		s.printf("%s drops it", n.name)
	}
	if n.failed != nil {
		s.printf("%s stops: %v", n.name, n.failed)
	}
}

// restart makes n a new process, which replays the log.
func (s *sim) restart(n *simNode) {
	n.fsm.stop(ErrClosed)
	s.releases()
	n.session.Close()
	*n = *newSimNode(n.name)
	s.deliver(n)
}

// install replaces the state of n by the snapshot that from has taken, and
// delivers the log from its index on.
func (s *sim) install(n, from *simNode) {
	var b bytes.Buffer
	require.NoError(s.t, from.taken.Persist(discardSink{&b}))
	require.NoError(s.t, n.fsm.Restore(io.NopCloser(&b)))
	n.applied = from.takenAt
	s.deliver(n)
}

// releases returns the outcome of parked replies.
func (s *sim) releases() {
	for _, n := range s.nodes {
		left := n.parked[:0]
		for _, p := range n.parked {
			complete, err := n.part.Completed().Outcome(p.since, p.ticket)
			switch {
			case p.ticket == partition.TicketLost:
				s.printf("%s: uncertain", p.name)
			case !complete:
				left = append(left, p)
			case errors.Is(err, partition.ErrUndone):
				s.printf("%s: undone", p.name)
			case err != nil:
				s.printf("%s: uncertain", p.name)
			default:
				s.printf("%s: leaves", p.name)
			}
		}
		n.parked = left
	}
}

// tables shows what each node has committed, as its snapshot holds it, and what
// a leader's calls see.
func (s *sim) tables() {
	for _, n := range s.nodes {
		clock, _ := engine.NewManualClock(simStart)
		e := engine.New(engine.Config{Shards: 2, Clock: clock})
		r := e.Replicate(ledger.New(ledger.Hooks{}))
		var b bytes.Buffer
		require.NoError(s.t, n.replica.Snapshot().Persist(&b))
		require.NoError(s.t, r.Restore(&b, simStart))
		r.Lead(simStart)
		committed := e.NewSession()
		s.out.WriteString(n.name + ": committed" + s.table(committed))
		committed.Close()
		if term := n.fsm.serving.Load(); term != 0 {
			fmt.Fprintf(&s.out, "; leads term %d, decided%s", term, s.table(n.session))
		}
		s.out.WriteString("\n")
	}
}

// set shows the first and the last member of a set.
func (s *sim) set(from *engine.Session, key string) string {
	v, err := from.Open(simStart, []byte(key), algo.SortedSet)
	require.NoError(s.t, err)
	defer v.Close()
	z := packed.NewSortedSet(v)
	_, first := z.At(0)
	_, last := z.At(z.Len() - 1)
	require.Equal(s.t, z.Len(), int(last-first)+1)
	return fmt.Sprintf(" %s=%v…%v", key, first, last)
}

func (s *sim) table(from *engine.Session) string {
	text := ""
	for _, key := range s.keys {
		x, ok, _ := from.Explain(simStart, []byte(key))
		switch {
		case ok && x.Limit.Algorithm == algo.SortedSet:
			text += s.set(from, key)
		case ok:
			text += fmt.Sprintf(" %s=%d", key, x.Used)
		}
	}
	if text == "" {
		return " nothing"
	}
	return text
}
