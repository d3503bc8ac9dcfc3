package main

import (
	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// source reads the metrics from the parts of the process.
type source struct {
	front   *server.Server
	engines []*engine.Engine // by group
	node    *cluster.Node    // nil without replication
	audit   *auditFile       // nil without audit-log
	ports   *listeners
	files   reloaders
}

var _ web.Source = (*source)(nil)

// Metrics implements web.Source.
func (s *source) Metrics() []web.Metric {
	clients, keys := s.front.Stats(), engine.Sum(s.engines)
	closed := func(limit string, n uint64) web.Metric {
		return web.Counter("headgate_connections_closed_total", "Connections closed for a limit that they crossed.", n).With("limit", limit)
	}
	metrics := []web.Metric{
		web.Counter("headgate_commands_total", "Commands executed.", clients.Commands),
		web.Counter("headgate_rejected_commands_total", "Commands refused without being executed: unknown, wrong number of arguments, not allowed.", clients.RejectedCommands),
		web.Counter("headgate_error_replies_total", "Replies that were errors.", clients.ErrorReplies),
		web.Gauge("headgate_connections", "Clients connected.", clients.Clients),
		web.Counter("headgate_connections_accepted_total", "Connections accepted, those refused at once included.", clients.Received),
		web.Counter("headgate_connections_rejected_total", "Connections refused at once: maxclients, protected mode.", clients.Rejected),
		closed("query_buffer", clients.QueryBufferKills),
		closed("clients_memory", clients.MemoryKills),
		closed("output_buffer", clients.OutputKills),
		closed("timeout", clients.TimeoutKills),
		web.Counter("headgate_auth_failures_total", "Wrong passwords.", clients.AuthFailures),
		web.Counter("headgate_protocol_errors_total", "Connections closed for input that is not a command.", clients.ProtocolErrors),
		web.Counter("headgate_accept_errors_total", "Failures to accept a connection.", clients.AcceptErrors),
		web.Counter("headgate_audit_lost_total", "Lines that could not be written to audit-log.", s.audit.lost()),
		web.Counter("headgate_decision_log_lines_total", "Lines of decision-log.", s.front.DecisionLog().Written),
		unloggedDecisions("rate", s.front.DecisionLog().Beyond),
		unloggedDecisions("full", s.front.DecisionLog().Full),
		unloggedDecisions("write", s.front.DecisionLog().Failed),
		web.Counter("headgate_input_bytes_total", "Bytes read from clients.", clients.BytesIn),
		web.Counter("headgate_output_bytes_total", "Bytes written to clients.", clients.BytesOut),
		web.Gauge("headgate_clients_memory_bytes", "Buffers of all connections, bounded by maxmemory-clients.", clients.ClientMemory),
		web.Gauge("headgate_keys", "Keys in the table, expired ones included until they are swept.", keys.Keys),
		web.Gauge("headgate_memory_bytes", "Accounted memory of the keys.", keys.Bytes),
		web.Gauge("headgate_memory_limit_bytes", "maxmemory; 0 is no limit.", keys.MaxBytes),
		web.Counter("headgate_evicted_keys_total", "Live keys dropped for maxmemory.", keys.Evicted),
		web.Counter("headgate_expired_keys_total", "Keys dropped after they had expired.", keys.Expired),
		web.Gauge("headgate_clock_skew_seconds", "Wall clock minus the clock of decisions.", s.engines[0].Clock().Skew().Seconds()),
	}
	s.ports.handshakeErrors(func(port string, failed uint64) {
		metrics = append(metrics, web.Counter("headgate_tls_handshake_errors_total", "TLS handshakes that failed, by port.", failed).With("port", port))
	})
	s.files.each(func(files *certs.Reloader) {
		for _, e := range files.Expires() {
			metrics = append(metrics, web.Gauge("headgate_tls_certificate_expiry_timestamp_seconds",
				"When a certificate expires, in Unix seconds: of a chain the first, of authorities the last.", e.At.Unix()).With("file", e.Parameter))
		}
	})
	metrics = append(metrics, s.scriptMetrics()...)
	policies := s.front.Policies()
	metrics = append(metrics,
		web.Gauge("headgate_policies", "Policies that are in force.", policies.Policies),
		web.Gauge("headgate_policies_revision", "Number of the last change of policies that is in force.", policies.Revision),
		web.Gauge("headgate_policies_file_differs", "1 while the policies in force come from another node's file.", bit(policies.FileDiffers)),
		web.Counter("headgate_policies_unknown_total", "Checks of unknown policies, which are refused: neither allowed nor denied.", s.front.UnknownPolicies()),
		web.Counter("headgate_offenders_evicted_total", "Callers, by limits of policies, whose strikes or blocks were evicted at maxmemory.", keys.OffendersEvicted),
		web.Gauge("headgate_offenders", "Callers, by limits of policies, whose strikes or blocks are known.", keys.Offenders),
		web.Gauge("headgate_holds", "Holds that are known, settled ones included.", keys.Holds),
		web.Counter("headgate_holds_evicted_total", "Holds that made room for others.", keys.HoldsEvicted),
		web.Gauge("headgate_leases", "Leases that are known, ended ones included until they are swept.", keys.Blocks),
		web.Counter("headgate_leases_granted_units_total", "Units granted as leases: at once, or as refill.", keys.LeaseGranted),
		web.Counter("headgate_leases_returned_units_total", "Units of leases that went back to their limits: their holder returned them, or a refill ended before they were due.", keys.LeaseReturned),
		web.Counter("headgate_leases_lapsed_units_total", "Units of leases that were not returned before their deadline: spent or lost. The next lease of the limit counts them.", keys.LeaseLapsed),
		web.Counter("headgate_events_total", "Events.", s.front.Events().Posted()),
		droppedEvents("flood", s.front.DroppedEvents()),
		droppedEvents("late", s.front.Events().Unread()),
		web.Counter("headgate_policy_keys_replaced_total", "Keys of other types that made room for a policy's counter.", keys.Replaced))
	for _, n := range s.front.PolicyCounts() {
		metrics = append(metrics, policyMetrics(&n)...)
	}
	for _, d := range s.front.Decisions() {
		decisions := func(outcome string, n uint64) web.Metric {
			return web.Counter("headgate_decisions_total", "Decisions of the limiter.", n).With("command", d.Command).With("outcome", outcome)
		}
		metrics = append(metrics, decisions("allowed", d.Allowed), decisions("denied", d.Denied))
	}
	for _, d := range s.front.Durations() {
		metrics = append(metrics, durationMetric(&d))
	}
	if s.node != nil {
		metrics = append(metrics, replicationMetrics(s.node, s.front, &clients)...)
	}
	return metrics
}

// droppedEvents returns the metric of events that no reader got.
func droppedEvents(why string, n uint64) web.Metric {
	return web.Counter("headgate_events_dropped_total", "Denials without an event, and events that were overwritten before a reader read them.", n).With("why", why)
}

// unloggedDecisions returns the metric of calls that have no line in the decision log.
func unloggedDecisions(why string, n uint64) web.Metric {
	return web.Counter("headgate_decision_log_dropped_total", "Calls without a line in the decision log: denials beyond decision-log-denied, and lines that found no room or could not be written.", n).With("why", why)
}

func (s *source) scriptMetrics() []web.Metric {
	runs, known := s.front.ScriptRuns()
	ran := func(by string, n uint64) web.Metric {
		return web.Counter("headgate_script_runs_total", "Runs of scripts: of well-known ones as Go, and of the others in Lua.", n).With("by", by)
	}
	return []web.Metric{
		web.Gauge("headgate_scripts", "Scripts that are known.", known),
		ran("native", runs.Native),
		ran("lua", runs.Interpreted),
		web.Counter("headgate_script_moves_total", "Runs that took too long for an event loop and continued on a worker.", runs.Moved),
		web.Counter("headgate_script_ends_total", "Runs that were ended at their bounds or by SCRIPT KILL, and have changed nothing.", runs.Ended),
	}
}

// durationMetric returns a command's durations, with buckets from 1 µs (about the time of a
// check) to 1 s. Each bucket's bound is four times the bound before.
func durationMetric(d *server.Durations) web.Metric {
	buckets := make(map[float64]uint64)
	for i := 0; i <= 20; i += 2 {
		buckets[float64(int64(1)<<i)/1e6] = d.UpTo[i]
	}
	return web.Histogram("headgate_command_duration_seconds", "Time to execute a command, of a sample of the commands.",
		d.Count, d.Sum.Seconds(), buckets).With("command", d.Command)
}
