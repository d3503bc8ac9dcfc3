package server

import (
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
)

// # Connections that are to go
//
// A node that stops closes its clients' connections, and so does one with
// redirect moved that does not lead any more. A client takes a command without
// reply for one that may have been executed. So a connection departs: it goes
// on as ever until nothing is owed to its client, takes what has arrived
// meanwhile, and closes when there is nothing more. What its client sends at
// that very moment is not executed, and its client cannot know that: no word of
// the protocol says good-bye. Other nodes do know it: see partition.TextClosing.

// ending is how a connection comes to its end.
type ending uint8

const (
	staysOpen    ending = iota
	closesAtRest        // departs, once its client is in no transaction or command
	closesSoon          // departs
	closes              // runs no more commands, and closes when all is written
)

const (
	// lastLook is how long a departing connection with goroutines waits for
	// input that is on its way through the kernel.
	lastLook = 5 * time.Millisecond
	// lastLooks is how often a departing connection of a loop finds input
	// before it closes all the same: a client that waits for replies sends all
	// that it may send in one or two writes.
	lastLooks = 16
)

// depart lets the connection close as soon as e allows it. It must be settled
// afterwards.
func (c *conn) depart(e ending) { c.ending = max(c.ending, e) }

// departing reports whether the connection is to leave.
func (c *conn) departing() bool { return c.ending == closesAtRest || c.ending == closesSoon }

// departs reports whether a departing connection may leave if no input of it is
// there.
func (c *conn) departs() bool {
	switch {
	case !c.departing(), c.killed, c.eof,
		c.stall != 0, c.frame != nil, c.deferred != nil, c.unrun, c.pending > 0, len(c.segments) > 0:
		return false
	case c.ending == closesAtRest:
		return c.tx == nil && c.inOff == len(c.in)
	}
	return true
}

// leave ends a connection that departs.
func (c *conn) leave() {
	c.ending = closes
	if c.relayed {
		c.error(partition.TextClosing)
	}
}

// sendAway closes clients' connections after this node has lost its leadership,
// and the tickets that were not committed have failed. With RedirectForward they
// stay: their commands go to the next leader from now on, and what has no known
// outcome says so by itself. With RedirectMoved they are closed at the end of a
// batch with nothing owed, so that pools connect again and find the leader.
// Streams of other nodes stay: what comes on them is refused.
func (s *Server) sendAway() {
	if s.cfg.Redirect != RedirectMoved {
		return
	}
	for _, c := range s.clients.list() {
		if !c.relayed {
			c.post(func() {
				c.depart(closesAtRest)
				if c.cancel != nil {
					c.cancel()
				}
			})
		}
	}
}
