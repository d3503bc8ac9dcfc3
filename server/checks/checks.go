package checks

import (
	"sync/atomic"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/events"
)

// Book holds the policies that calls are checked against.
type Book interface {
	// Set returns the policies that are committed.
	Set() *policy.Set
	// Current returns the committed policies without waiting for a large change that has
	// just been committed. behind reports that such a change is pending.
	Current() (set *policy.Set, behind bool)
	// InForce returns the policies in force and never waits.
	InForce() *policy.Set
	// Behind reports that policies which a group has confirmed are not known here yet. It is
	// for nodes with several groups.
	Behind() bool
	// Missing is the error for a policy that Set does not have.
	Missing(name []byte) string
	// Hide appends to at the positions of secret values, among the pairs that begin at
	// args[from].
	Hide(name []byte, args [][]byte, from int, at []int) []int
}

// Checker holds the commands that ask policies.
type Checker struct {
	homes   *Homes
	book    Book
	tallies *Tallies
	denials *events.Denials
	// unknown counts the checks of policies that do not exist.
	unknown atomic.Uint64
}

// New returns the commands that ask the policies of a book on the counters of the groups.
// Results are counted in tallies, and denials are reported to ev.
func New(homes *Homes, book Book, tallies *Tallies, ev *events.Log) *Checker {
	homes.book = book
	return &Checker{homes: homes, book: book, tallies: tallies, denials: events.NewDenials(ev)}
}

// Counts returns the counts of the limits of all policies that are in force.
func (c *Checker) Counts() []LimitCount { return c.tallies.Of(c.book.Set()) }

// Unknown returns how many checks since the start named a policy that does not exist.
func (c *Checker) Unknown() uint64 { return c.unknown.Load() }

// Denials returns the counts of denials that become events.
func (c *Checker) Denials() *events.Denials { return c.denials }
