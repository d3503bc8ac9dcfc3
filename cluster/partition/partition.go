package partition

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// Front is what a partition calls on its server. Only AwaitBatches may block.
type Front interface {
	// Recheck makes the front check its parked replies again. Either tickets are complete,
	// or some replies have waited for long enough that were delayed only to slow clients
	// down.
	Recheck()
	// AwaitBatches waits until all batches of commands that have begun have ended,
	// including their jobs on workers, and have called Await for their replies. If ctx is
	// done first, it returns ctx's error.
	AwaitBatches(ctx context.Context) error
	// Deposed reports that this node decides no longer.
	Deposed()
	// LeaderChanged reports another leader. old is the previous leader. The addresses for
	// clients of both may be unknown.
	LeaderChanged(old, leader TopologyNode)
	// TermChanged reports that the term of Partition.LastTerm has changed. It must not block.
	TermChanged()
}

// Config configures a Partition. Engine and Front are required.
type Config struct {
	// Slots are the hash slots of the partition.
	Slots Slots
	// Engine decides while this node leads.
	Engine *engine.Engine
	// Replication is this node's part in the cluster. It is nil for a node without a
	// cluster, which is always leader.
	Replication Replication
	Front       Front
	// Logger receives what an operator should know.
	Logger *slog.Logger

	// OnFailure is the failure policy: how the node answers while no leader answers.
	OnFailure OnFailure
	// Backstop is the multiple of each limit that FailOpen admits at most; 0 means
	// DefaultBackstop.
	Backstop int64
	// ForwardTimeout bounds how long a command takes to reach the leader, and how long the
	// leader then takes to answer. If either takes longer, OnFailure applies.
	ForwardTimeout time.Duration
	// HandoverWait is how long commands wait for the next leader in a planned handover.
	HandoverWait time.Duration
	// MostReply is the largest reply of the leader, in bytes, that is passed on.
	MostReply int
	// MaxArgs bounds the arguments of one command that the leader takes.
	MaxArgs int
}

// Partition is a range of hash slots from the view of this node. It says which node decides
// for the range. While this node decides, the partition says which replies may be sent.
// While another node decides, the partition forwards commands to that node.
//
// All methods are safe for concurrent use. Methods that are called for each batch of
// commands take no lock.
type Partition struct {
	Replication
	Front
	cfg    Config
	engine *engine.Engine
	alone  bool
	begun  time.Time

	// mu is held by code that stores completed.
	mu        sync.Mutex
	completed atomic.Pointer[Completed]

	lastLeader lastLeader
	terms      terms
	forwarded  atomic.Uint64
	fast, slow *forwarder // nil for a node in no cluster

	// degradedMu guards the limiter for times without a leader, which is made when first
	// needed.
	degradedMu sync.Mutex
	open       *open
	local      *share
	healer     *healer // of local
}

// New returns a partition.
func New(cfg Config) *Partition {
	p := &Partition{Replication: cfg.Replication, Front: cfg.Front, cfg: cfg, engine: cfg.Engine, begun: time.Now()}
	p.cfg.Backstop = cmp.Or(cfg.Backstop, DefaultBackstop)
	if p.Replication == nil {
		p.Replication, p.alone = alone{}, true
	} else {
		p.fast = newForwarder(p, Streams, cfg.ForwardTimeout)
		p.slow = newForwarder(p, slowStreams, max(cfg.ForwardTimeout, slowTimeout))
	}
	p.completed.Store(&Completed{})
	p.Degraded() // makes what the failure policy needs
	return p
}

// Close ends the partition's goroutines. Commands whose replies they wait for become
// uncertain. Forward must not be called afterwards.
func (p *Partition) Close() {
	p.degradedMu.Lock()
	healer, open := p.healer, p.open
	p.degradedMu.Unlock()
	if open != nil {
		open.close()
	}
	if healer != nil {
		healer.stop()
	}
	if !p.alone {
		p.fast.close()
		p.slow.close()
	}
}

// Forward sends a frame to the leader. It calls the frame's Done when the leader has
// answered, or when no answer can be expected. If too many frames wait, it returns false
// and does not call Done.
func (p *Partition) Forward(fr *Frame) bool {
	fr.started = time.Now()
	if fr.Slow {
		return p.slow.submit(fr)
	}
	return p.fast.submit(fr)
}

// Forwarded returns how many commands, and transactions, leaders have answered for this
// node.
func (p *Partition) Forwarded() uint64 { return p.forwarded.Load() }

// NoteHandover notes that a handover begins. Commands on their way, and commands that
// follow soon, then wait for its outcome instead of ForwardTimeout.
func (p *Partition) NoteHandover() {
	if !p.alone {
		p.fast.noteHandover()
		p.slow.noteHandover()
	}
}

// HandingOver reports whether commands must wait for the next leader.
func (p *Partition) HandingOver() bool { return p.fast.handingOver(false) }

// Degraded returns the limiter that decides without a leader, according to the failure
// policy. It returns nil if the policy refuses to decide.
func (p *Partition) Degraded() Limiter { return p.DegradedBy(p.cfg.OnFailure, 0) }

// DegradedBy does the same as Degraded for another failure policy. backstop replaces the
// configured backstop, unless it is 0. It must not be called after Close.
func (p *Partition) DegradedBy(f OnFailure, backstop int64) Limiter {
	p.degradedMu.Lock()
	defer p.degradedMu.Unlock()
	switch {
	case p.alone:
	case f == FailOpen:
		if p.open == nil {
			p.open = newOpen(p)
		}
		return bounded{p.open, cmp.Or(backstop, p.cfg.Backstop)}
	case f == FailLocal:
		if p.local == nil {
			p.local = newShare(p)
			p.healer = newHealer(p, p.local)
			p.healer.start()
		}
		return p.local
	}
	return nil
}

// OnFailure returns what answers while no leader does.
func (p *Partition) OnFailure() OnFailure { return p.cfg.OnFailure }

// Backstop returns what FailOpen has counted.
func (p *Partition) Backstop() engine.BackstopCounts {
	p.degradedMu.Lock()
	open := p.open
	p.degradedMu.Unlock()
	if open == nil {
		return engine.BackstopCounts{}
	}
	return open.backstop.Counts()
}

// Alone reports whether this node is in no cluster.
func (p *Partition) Alone() bool { return p.alone }

// Slots returns the hash slots of the partition.
func (p *Partition) Slots() Slots { return p.cfg.Slots }

// Engine returns the engine that decides while this node leads.
func (p *Partition) Engine() *engine.Engine { return p.engine }

// Standing is the state that determines how a batch of commands is handled.
type Standing struct {
	Role     Role
	Since    uint64 // the first ticket that may cover a decision of the batch
	Durable  bool
	Outdated bool // the node decides, and knows that another term has a leader
}

// Standing returns the state for a batch that begins now.
func (p *Partition) Standing() Standing {
	if p.alone {
		return Standing{Role: Leading}
	}
	s := Standing{Role: p.Role(), Since: p.Since(), Durable: p.Durable()}
	if s.Role.Decides() {
		term := p.Term()
		s.Outdated = p.LastTerm() != term && p.SeeTerm(term) != term
	}
	return s
}

var errAlone = errors.New("this node is in no cluster")

// alone is the replication of a node without a cluster. Such a node is always leader and
// waits for nothing. Its tickets are 0, which means no ticket.
type alone struct{}

func (alone) Role() Role                                         { return Leading }
func (alone) Ticket() uint64                                     { return 0 }
func (alone) Since() uint64                                      { return 0 }
func (alone) Await()                                             {}
func (alone) Expect()                                            {}
func (alone) Term() uint64                                       { return 0 }
func (alone) Durable() bool                                      { return false }
func (alone) DialLeader(context.Context) (net.Conn, error)       { return nil, errAlone }
func (alone) DialNode(context.Context, string) (net.Conn, error) { return nil, errAlone }
func (alone) Topology() Topology {
	return Topology{Nodes: []TopologyNode{{Leader: true, Voter: true, Alive: true}}}
}
func (alone) AwaitReplicas(context.Context, int) int { return 0 }
