package command

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// Limiter decides limits. Its methods are methods of [engine.Session], which is the Limiter
// of a node that decides itself. Without a leader, the failure policy is the Limiter.
type Limiter interface {
	Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error)
	DecideAll(now int64, segs []engine.Segment, o *algo.Options, out []algo.Decision) (binding int, err error)
	Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error)
	Acquire(now int64, key []byte, limit, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error)
}

// Chain is a chain of limits with its decisions. Calls use the same memory one after the
// other.
type Chain struct {
	Segs []engine.Segment
	Opts algo.Options
	Out  [engine.MaxSegments]algo.Decision
}

// Forget drops the references to the client's input.
func (c *Chain) Forget() { clear(c.Segs) }
