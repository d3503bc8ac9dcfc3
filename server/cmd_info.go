package server

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/internal/cputime"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

// infoSections are INFO's sections in Redis's order. Sections that are not default need
// ALL, EVERYTHING or their name.
var infoSections = []struct {
	name      string
	isDefault bool
	write     func(*Server, *infoWriter)
}{
	{"Server", true, (*Server).infoServer},
	{"Clients", true, (*Server).infoClients},
	{"Memory", true, (*Server).infoMemory},
	{"Persistence", true, (*Server).infoPersistence},
	{"Stats", true, (*Server).infoStats},
	{"Replication", true, (*Server).infoReplication},
	{"CPU", true, (*Server).infoCPU},
	{"Modules", true, func(*Server, *infoWriter) {}},
	{"Commandstats", false, (*Server).infoCommands},
	{"Errorstats", true, (*Server).infoErrors},
	{"Latencystats", false, (*Server).infoLatency},
	{"Cluster", true, (*Server).infoCluster},
	{"Keyspace", true, (*Server).infoKeyspace},
}

// infoWriter collects INFO's text.
type infoWriter struct {
	strings.Builder
	moves bool // of the connection that asked
}

func (w *infoWriter) field(name string, value any) { fmt.Fprintf(w, "%s:%v\r\n", name, value) }

// cmdInfo runs on a worker, because it asks the Go runtime and the operating system.
func cmdInfo(c *conn, args [][]byte) {
	want := make(map[string]bool)
	for _, a := range args[1:] {
		want[strings.ToLower(string(command.Clip(a, 64)))] = true
	}
	if len(want) == 0 {
		want["default"] = true
	}
	s, moves := c.srv, c.moves
	c.block(func(w *resp.Writer) { w.Verbatim("txt", s.info(want, moves)) })
}

func (s *Server) info(want map[string]bool, moves bool) string {
	all := want["all"] || want["everything"]
	w := infoWriter{moves: moves}
	section := func(name string, isDefault bool, write func(*Server, *infoWriter)) {
		lower := strings.ToLower(name)
		if !all && !(isDefault && want["default"]) && !want[lower] {
			return
		}
		if w.Len() > 0 {
			w.WriteString("\r\n")
		}
		w.WriteString("# " + name + "\r\n")
		write(s, &w)
		if s.cfg.Info != nil {
			for _, f := range s.cfg.Info.Info(lower) {
				w.field(f.Name, f.Value)
			}
		}
	}
	for _, sec := range infoSections {
		section(sec.name, sec.isDefault, sec.write)
	}
	return w.String()
}

func (s *Server) infoServer(w *infoWriter) {
	uptime := time.Since(s.started)
	w.field("redis_version", redisVersion)
	w.field("headgate_version", s.cfg.Version)
	w.field("redis_mode", redisMode(w.moves))
	w.field("os", runtime.GOOS+" "+runtime.GOARCH)
	w.field("arch_bits", 32<<(^uint(0)>>63))
	w.field("go_version", runtime.Version())
	w.field("process_id", os.Getpid())
	w.field("run_id", s.runID)
	if addr := s.tcpAddr(); addr != "" {
		w.field("tcp_port", addr[strings.LastIndexByte(addr, ':')+1:])
	}
	w.field("server_time_usec", s.engine.Now()/int64(time.Microsecond))
	w.field("clock_skew_usec", s.engine.Clock().Skew().Microseconds())
	w.field("uptime_in_seconds", int64(uptime.Seconds()))
	w.field("uptime_in_days", int64(uptime.Hours()/24))
	w.field("io_threads_active", len(s.loops))
}

// tcpAddr returns the address of a TCP listener, "" without one.
func (s *Server) tcpAddr() string {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	for ln := range s.listeners {
		if ln.Addr().Network() == "tcp" {
			return ln.Addr().String()
		}
	}
	return ""
}

func (s *Server) infoClients(w *infoWriter) {
	subscribed, tracking := 0, 0
	for _, c := range s.clients.list() {
		heard := c.subscriber.Shown()
		if heard.Subscribed() {
			subscribed++
		}
		if heard.Tracking() {
			tracking++
		}
	}
	w.field("connected_clients", s.clients.admitted.Load())
	w.field("cluster_connections", 0)
	w.field("maxclients", s.runtime.Load().MaxClients)
	w.field("blocked_clients", s.Stats().Held+s.pauses.count())
	w.field("tracking_clients", tracking)
	w.field("pubsub_clients", subscribed)
}

// infoMemory shows the accounted memory of the table, which maxmemory bounds, as
// used_memory. It then shows the other memory of the process.
func (s *Server) infoMemory(w *infoWriter) {
	st := s.cfg.tables()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(heap)
	rss := processRSS()
	policy := "noeviction"
	if p, ok := s.cfg.Settings.Get("maxmemory-policy"); ok {
		policy = p
	}
	w.field("used_memory", st.Bytes)
	w.field("used_memory_human", humanBytes(st.Bytes))
	w.field("used_memory_rss", rss)
	w.field("used_memory_rss_human", humanBytes(rss))
	w.field("used_memory_heap", heap[0].Value.Uint64())
	w.field("used_memory_runtime", heap[1].Value.Uint64())
	w.field("used_memory_dataset", st.Bytes)
	w.field("maxmemory", st.MaxBytes)
	w.field("maxmemory_human", humanBytes(st.MaxBytes))
	w.field("maxmemory_policy", policy)
	cached, bytes := s.scripts.Cached()
	w.field("number_of_cached_scripts", cached)
	w.field("used_memory_scripts", bytes)
	w.field("used_memory_scripts_human", humanBytes(int64(bytes)))
	w.field("mem_allocator", "go")
}

// infoPersistence is for clients that wait until the field loading is 0.
func (s *Server) infoPersistence(w *infoWriter) {
	w.field("loading", 0)
	w.field("async_loading", 0)
	w.field("aof_enabled", 0)
}

func (s *Server) infoStats(w *infoWriter) {
	st, keys := s.Stats(), s.cfg.tables()
	allowed, denied := s.stats.decisions()
	w.field("total_connections_received", st.Received)
	w.field("total_commands_processed", st.Commands)
	w.field("instantaneous_ops_per_sec", s.rate.perSecond(st.Commands))
	w.field("total_net_input_bytes", st.BytesIn)
	w.field("total_net_output_bytes", st.BytesOut)
	w.field("rejected_connections", st.Rejected)
	w.field("expired_keys", keys.Expired)
	w.field("evicted_keys", keys.Evicted)
	w.field("decisions_allowed", allowed)
	w.field("decisions_denied", denied)
	w.field("decisions_degraded", st.Degraded)
	w.field("leases", keys.Blocks)
	w.field("leases_granted_units", keys.LeaseGranted)
	w.field("leases_returned_units", keys.LeaseReturned)
	w.field("leases_lapsed_units", keys.LeaseLapsed)
	w.field("pubsub_channels", s.pubsub.Count(pubsub.Channels))
	w.field("pubsub_patterns", s.pubsub.Count(pubsub.Patterns))
	w.field("pubsubshard_channels", s.pubsub.Count(pubsub.Shards))
	w.field("total_error_replies", st.ErrorReplies)
	w.field("rejected_calls", st.RejectedCommands)
	w.field("acl_access_denied_auth", st.AuthFailures)
	w.field("protocol_errors", st.ProtocolErrors)
	w.field("accept_errors", st.AcceptErrors)
	if s.cfg.HandshakeErrors != nil {
		w.field("tls_handshake_errors", s.cfg.HandshakeErrors())
	}
	w.field("client_query_buffer_limit_disconnections", st.QueryBufferKills)
	w.field("client_output_buffer_limit_disconnections", st.OutputKills)
	w.field("client_timeout_disconnections", st.TimeoutKills)
	w.field("evicted_clients", st.MemoryKills)
	told := s.DecisionLog()
	w.field("decision_log_lines", told.Written)
	w.field("decision_log_dropped", told.Beyond+told.Full+told.Failed)
}

func (s *Server) infoCPU(w *infoWriter) {
	system, user := cputime.SystemAndUser()
	w.field("used_cpu_sys", fmt.Sprintf("%.6f", system.Seconds()))
	w.field("used_cpu_user", fmt.Sprintf("%.6f", user.Seconds()))
}

// infoCommands estimates the total time of a command from the calls that were timed.
func (s *Server) infoCommands(w *infoWriter) {
	s.eachCalled(func(cmd *command.Spec, n callCounts) {
		h := &s.stats.durations[cmd.Index]
		mean := 0.0
		if n := h.count.Load(); n > 0 {
			mean = float64(h.sum.Load()) / float64(n) / 1e3
		}
		w.field("cmdstat_"+cmd.Full, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			n.calls, int64(mean*float64(n.calls)), mean, n.refused, n.failed))
	})
}

// infoErrors shows the number of error replies by code.
func (s *Server) infoErrors(w *infoWriter) {
	s.stats.errors.each(func(code string, n uint64) { w.field("errorstat_"+code, fmt.Sprintf("count=%d", n)) })
}

func (s *Server) infoLatency(w *infoWriter) {
	s.eachCalled(func(cmd *command.Spec, _ callCounts) {
		if h := &s.stats.durations[cmd.Index]; h.count.Load() > 0 {
			w.field("latency_percentiles_usec_"+cmd.Full,
				"p50="+h.percentile(0.5)+",p99="+h.percentile(0.99)+",p99.9="+h.percentile(0.999))
		}
	})
}

// callCounts says how often a command was run, was refused without being run, and was run
// but replied an error.
type callCounts struct{ calls, refused, failed uint64 }

// eachCalled calls fn with every command that clients have sent, by name.
func (s *Server) eachCalled(fn func(cmd *command.Spec, n callCounts)) {
	var list []*command.Spec
	s.table.Each(func(cmd *command.Spec) { list = append(list, cmd) })
	slices.SortFunc(list, func(a, b *command.Spec) int { return cmp.Compare(a.Full, b.Full) })
	for _, cmd := range list {
		var n callCounts
		for _, c := range s.stats.stripes {
			n.calls += c.calls[cmd.Index].Load()
			n.refused += c.refused[cmd.Index].Load()
			n.failed += c.failed[cmd.Index].Load()
		}
		if n != (callCounts{}) {
			fn(cmd, n)
		}
	}
}

func (s *Server) infoCluster(w *infoWriter) {
	w.field("cluster_enabled", command.Truth(w.moves))
}

// infoKeyspace shows the databases that have keys. At the cluster door, with several
// partitions, it counts the keys of those that this node leads. So the figures of all
// masters add up. The state of a limit counts as a key
// that expires, because it is deleted when it no longer matters.
func (s *Server) infoKeyspace(w *infoWriter) {
	var all [algo.Databases]engine.DatabaseStats
	for i, p := range s.parts {
		if w.moves && len(s.parts) > 1 && !p.Role().Decides() {
			continue
		}
		e := s.cfg.Parts[i].Engine
		for db, st := range e.DatabaseStats(e.Now()) {
			all[db] = all[db].Plus(st)
		}
	}
	for db, st := range all {
		if st.Keys > 0 {
			w.field(fmt.Sprintf("db%d", db), fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", st.Keys, st.Expires, st.TTL/int64(time.Millisecond)))
		}
	}
}

// humanBytes is Redis's short form of a size.
func humanBytes(n int64) string {
	units := []string{"K", "M", "G", "T"}
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.2f%s", f, units[i])
}
