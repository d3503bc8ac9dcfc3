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
// What happens goes to a ring (package events). From there it is read by RL.EVENTS, by
// streams over HTTP, and by a goroutine that publishes it to a channel.

const (
	// eventsChannel is the channel of Pub/Sub that has the events of this node. Only
	// who subscribes to it by its name gets them: a pattern may be meant for the
	// channels of an application.
	eventsChannel = "__headgate__:events"
	// eventsInterval is how often it is looked who listens, and what the role is.
	eventsInterval = 100 * time.Millisecond
	// publishedMost is how many events are published before it is looked again.
	publishedMost = 256
)

// Events are those of this node.
func (s *Server) Events() *events.Log { return s.events }

// DroppedEvents is how many denials no event tells of, since there were too many.
func (s *Server) DroppedEvents() uint64 { return s.checks.Denials().Dropped() }

// tellEvents publishes events, tells of changes of the role, and has denials told that
// were counted together, until Shutdown.
func (s *Server) tellEvents() {
	t := time.NewTicker(eventsInterval)
	defer t.Stop()
	role, listened := partition.Starting, false
	var stop func() // of the subscribers' listening, nil while there are none
	var next int64
	var more <-chan struct{}
	var lines []events.Line
	for {
		select {
		case <-s.end:
			return
		case <-more:
		case <-t.C:
			role = s.tellRole(role)
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

// tellRole tells what this node of a cluster may do, if that was something else, and
// returns it.
func (s *Server) tellRole(was partition.Role) partition.Role {
	if s.cfg.Replication == nil {
		return was
	}
	is := s.Partition().Role()
	if is != was {
		s.events.Post(events.Event{At: s.engine.Now() / 1e6, Type: events.Role, Role: is.String()})
	}
	return is
}

// tellLeader tells who leads now.
func (s *Server) tellLeader(leader partition.TopologyNode) {
	e := events.Event{At: s.engine.Now() / 1e6, Type: events.Leader}
	if leader.Addressed() {
		e.Leader = net.JoinHostPort(leader.Host, strconv.Itoa(leader.Port))
	}
	s.events.Post(e)
}
