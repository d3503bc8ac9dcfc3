package server

import (
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/pubsub"
)

// # Connections that depart
//
// A node that stops closes the connections of its clients. A node that is no longer leader
// closes those of the cluster door. A client must assume that a command without a reply
// may have been executed. So a connection departs before it closes: it waits until its
// client has all replies, runs the input that has arrived meanwhile, and then closes. A
// command that the client sends at the moment of closing is not executed. The client cannot
// know that, because the protocol has no message for it. Other nodes do know; see
// partition.TextClosing.

// ending says how a connection ends.
type ending uint8

const (
	staysOpen    ending = iota
	closesAtRest        // departs when its client is not in a transaction or command
	closesSoon          // departs now
	closes              // runs no more commands, and closes when all output is written
)

const (
	// lastLook is how long a departing connection of the goroutine driver waits for input
	// that is still in the kernel.
	lastLook = 5 * time.Millisecond
	// lastLooks is how often a departing connection of a loop may find more input before it
	// closes anyway. A client that waits for replies sends everything in one or two writes.
	lastLooks = 16
)

// depart lets the connection close as soon as e allows. The caller must settle the
// connection afterwards.
func (c *conn) depart(e ending) { c.ending = max(c.ending, e) }

// departing reports whether the connection departs.
func (c *conn) departing() bool { return c.ending == closesAtRest || c.ending == closesSoon }

// departs reports whether a departing connection may close when it has no more input.
func (c *conn) departs() bool {
	switch {
	case !c.departing(), c.killed, c.eof,
		c.stall != 0, c.flight != nil, c.deferred != nil, c.unrun, c.pending > 0, len(c.segments) > 0:
		return false
	case c.ending == closesAtRest:
		return c.tx == nil && c.inOff == len(c.in)
	}
	return true
}

// leave ends a departing connection.
func (c *conn) leave() {
	c.ending = closes
	if c.relayed {
		c.error(partition.TextClosing)
	}
}

// sendAway closes clients' connections when this node no longer leads a partition.
// Connections of the cluster door are closed at the end of a batch when all replies have left,
// so that connection pools reconnect and find the leader.
//
// If the node has several partitions, it may still lead others, and MOVED tells clients the
// rest. Then only connections with sharded channels are closed, because nothing else ends
// their subscriptions. Other connections stay: their commands go to the next
// leader, and replies say which outcomes are unknown. Streams of other nodes stay; their
// commands are refused.
func (s *Server) sendAway(of uint16) {
	for _, c := range s.clients.list() {
		if !c.moves {
			continue
		}
		c.post(func() {
			if len(s.parts) == 1 || c.subscriber.Shown().Subscriptions[pubsub.Shards] > 0 {
				c.depart(closesAtRest)
			}
			if c.cancel != nil && waitsFor(c, of) {
				c.cancel()
			}
		})
	}
}

// waitsFor reports whether the WAIT that c runs is for a partition.
func waitsFor(c *conn, of uint16) bool {
	if c.waiting != nil {
		return c.waiting.has(of)
	}
	return c.jobPortion == of
}
