package checks

import (
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/events"
)

// Book has the policies that calls are checked by.
type Book interface {
	// Set returns the policies that are committed.
	Set() *policy.Set
	// Current is Set for callers who need not know a large change that has just been
	// committed: it does not wait for that. behind reports that there is one.
	Current() (set *policy.Set, behind bool)
	// InForce is Set without any wait.
	InForce() *policy.Set
	// Missing is the error for a policy that Set does not have.
	Missing(name []byte) string
	// Hide appends the positions of the values that must not be shown among pairs that
	// begin at args[from].
	Hide(name []byte, args [][]byte, from int, at []int) []int
}

// Checker has the commands that ask policies.
type Checker struct {
	engine  *engine.Engine
	book    Book
	tallies *Tallies
	denials *events.Denials
	// unknown counts the checks of policies that do not exist.
	unknown atomic.Uint64
}

// New returns the commands that ask the policies of a book on the counters of e.
// Tallies count what they say, and denials are told to ev.
func New(e *engine.Engine, book Book, tallies *Tallies, ev *events.Log) *Checker {
	return &Checker{engine: e, book: book, tallies: tallies, denials: events.NewDenials(ev)}
}

// Counts returns the counts of the limits of all policies that are in force.
func (c *Checker) Counts() []LimitCount { return c.tallies.Of(c.book.Set()) }

// Unknown is how many checks named a policy that does not exist, since the start.
func (c *Checker) Unknown() uint64 { return c.unknown.Load() }

// Denials tell who listens of denials.
func (c *Checker) Denials() *events.Denials { return c.denials }
