package server

import (
	"net"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/pubsub"
)

// # Events
//
// The node's events are in a ring (package events). Three readers read it: RL.EVENTS,
// streams over HTTP, and a goroutine that publishes the events to a channel.

const (
	// eventsChannel is the Pub/Sub channel with the events of this node. Only clients that
	// subscribe to it by name get the events. A pattern that matches it may be meant for
	// the channels of an application.
	eventsChannel = "__headgate__:events"
	// eventsInterval is how often the goroutine looks for subscribers and for a change of
	// the role.
	eventsInterval = 100 * time.Millisecond
	// publishedMost is how many events the goroutine publishes before it looks again.
	publishedMost = 256
)

// Events returns the log of this node's events.
func (s *Server) Events() *events.Log { return s.events }

// DroppedEvents returns how many denials have no event because there were too many.
func (s *Server) DroppedEvents() uint64 { return s.checks.Denials().Dropped() }

// tellEvents publishes events, posts changes of the role, and posts the denials that were
// counted together. It runs until Shutdown.
func (s *Server) tellEvents() {
	t := time.NewTicker(eventsInterval)
	defer t.Stop()
	roles, listened := make([]partition.Role, len(s.parts)), false // at first partition.Starting
	var stop func()                                                // stops listening; nil while there are no subscribers
	var next int64
	var more <-chan struct{}
	var lines []events.Line
	for {
		select {
		case <-s.end:
			return
		case <-more:
		case <-t.C:
			s.tellRoles(roles)
			listening := s.events.Settle()
			if listened || listening {
				s.checks.Denials().Sweep(s.engine.Now(), !listening)
			}
			listened = listening
			switch heard := s.pubsub.Subscribers(pubsub.Channels, eventsChannel) > 0; {
			case heard && stop == nil:
				stop, next = s.events.Listen(), s.events.Newest(0)
			case !heard && stop != nil:
				stop()
				stop, more = nil, nil
			}
		}
		if stop == nil {
			continue
		}
		lines, next, _, more = s.events.Read(lines[:0], next, publishedMost, events.MaxBytes)
		for i := range lines {
			s.pubsub.PublishTo(eventsChannel, lines[i].JSON)
		}
		clear(lines)
	}
}

// tellRoles posts an event for each group in which this node's role has changed, and notes
// the roles in was.
func (s *Server) tellRoles(was []partition.Role) {
	for i, p := range s.parts {
		if p.Alone() {
			continue
		}
		if is := p.Role(); is != was[i] {
			was[i] = is
			s.events.Post(events.Event{At: s.engine.Now() / 1e6, Type: events.Role, Group: s.groupOf(i), Role: is.String()})
		}
	}
}

// tellLeader posts an event about who leads a group now.
func (s *Server) tellLeader(group int, leader partition.TopologyNode) {
	e := events.Event{At: s.engine.Now() / 1e6, Type: events.Leader, Group: s.groupOf(group)}
	if leader.Addressed() {
		e.Leader = net.JoinHostPort(leader.Host, strconv.Itoa(leader.Port))
	}
	s.events.Post(e)
}

// groupOf returns a group as events name it: nil if there is only one.
func (s *Server) groupOf(i int) *int {
	if len(s.parts) == 1 {
		return nil
	}
	return &i
}
