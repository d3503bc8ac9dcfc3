package partition

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// Limiter decides limits, as engine.Session does, and counts, as engine.Local does.
type Limiter interface {
	Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error)
	DecideAll(now int64, segs []engine.Segment, o *algo.Options, out []algo.Decision) (binding int, err error)
	Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error)
	Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error)
	Count(now int64, db uint8, keys [][]byte, fn func(*engine.CountStep) error) error
}

// share decides on this node's share of the limits while no leader answers. A gap is the
// time from the first such decision until three things are true: a leader has charged
// everything that was admitted, this node's copy has these charges, and there was no
// decision for gapQuiet.
type share struct {
	part  *Partition
	log   *slog.Logger
	local *engine.Local

	// mu guards the fields below.
	mu    sync.Mutex
	gap   bool
	asked time.Time // last
}

// gapQuiet is how long after the last decision a gap ends.
const gapQuiet = time.Second

var _ Limiter = (*share)(nil)

func newShare(p *Partition) *share {
	return &share{part: p, log: p.cfg.Logger, local: engine.NewLocal(p.engine)}
}

// Decide implements Limiter.
func (s *share) Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error) {
	var out [1]algo.Decision
	_, err := s.DecideAll(now, []engine.Segment{{Key: key, Limit: l, Cost: cost}}, o, out[:])
	return out[0], err
}

// DecideAll implements Limiter.
func (s *share) DecideAll(now int64, segs []engine.Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	return s.local.Decide(now, segs, o, out)
}

// Acquire implements Limiter. Slots have no shares.
func (s *share) Acquire(int64, []byte, int64, int64, []byte, int64) (d algo.Decision, holder string, err error) {
	return d, "", engine.ErrNotLocal
}

// Check implements Limiter. Only enforced limits of a policy have shares.
func (s *share) Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error) {
	if err := s.enter(); err != nil {
		return engine.Verdict{}, err
	}
	return s.local.Check(now, checks, o, out)
}

// Count implements Limiter. A counter has no share, so it counts on this node's copy.
func (s *share) Count(now int64, db uint8, keys [][]byte, fn func(*engine.CountStep) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	return s.local.Count(now, db, keys, fn)
}

// HasShare reports whether this node has a share of the limits. Only a voter that has
// replayed its log has one.
func (p *Partition) HasShare() bool {
	_, _, ok := p.ownShare()
	return ok
}

// ownShare returns how many voters share the limits, and this node's rank among them. ok is
// HasShare.
func (p *Partition) ownShare() (voters, rank int, ok bool) {
	top := p.Topology()
	for i := range top.Nodes {
		if n := &top.Nodes[i]; n.Voter {
			voters++
			ok = ok || n.ID == top.Self
			if n.ID < top.Self {
				rank++
			}
		}
	}
	return voters, rank, ok && p.Role() != Starting
}

// enter begins a gap unless there is one.
func (s *share) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	if s.gap {
		return nil
	}
	voters, rank, ok := s.part.ownShare()
	if !ok {
		return engine.ErrNotLocal
	}
	s.local.Begin(voters, rank)
	s.gap = true
	s.log.Warn("no leader answers: deciding on this node's share", "share", fmt.Sprintf("1/%d", voters))
	return nil
}

// leave ends a gap that has been quiet.
func (s *share) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gap && time.Since(s.asked) > gapQuiet {
		s.gap = false
		s.log.Info("a leader decides again, and has charged the calls that this node admitted without a leader", "admitted", s.local.Admitted())
	}
}
