package server

import (
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/data"
	"github.com/headgate-io/headgate/server/keyspace"
	"github.com/headgate-io/headgate/server/limits"
	"github.com/headgate-io/headgate/server/policies"
	"github.com/headgate-io/headgate/server/pubsub"
)

// commandLists returns the commands of the server, a list for each file.
func (s *Server) commandLists() [][]command.Spec {
	return s.audited([][]command.Spec{
		connectionCommands(),
		clientCommands(),
		commandCommands(),
		transactionCommands(),
		s.scripts.Commands(),
		pubsub.Commands(s.pubsub, onSubscriber),
		serverCommands(),
		s.configCommands(),
		aclCommands(),
		latencyCommands(),
		keyspace.Commands(),
		data.Commands(),
		limits.Commands(s.totals, s.checks),
		s.checks.Commands(),
		policies.NewEditor(s.policies, s.cfg.Audit, s.caller.inOtherGroups).Commands(),
		replicationCommands(),
		clusterCommands(),
		sentinelCommands(),
		chargeCommands(),
		relayedCommands(),
		s.eventCommands(),
	})
}

// totals returns the counts of RL.STATS.
func (s *Server) totals() limits.Totals {
	passed, denied := s.stats.decisions()
	return limits.Totals{Allowed: passed, Denied: denied, Degraded: s.stats.counts[countDegraded].Load()}
}
