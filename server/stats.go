package server

import (
	"bytes"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
)

// Stats holds counts since the start or CONFIG RESETSTAT, and present states.
type Stats struct {
	Clients          int    // connected now
	Received         uint64 // connections accepted, including refused ones
	Rejected         uint64 // connections refused because of maxclients or protected mode
	AcceptErrors     uint64 // failures of accept, such as no descriptors left
	Commands         uint64 // commands run
	ErrorReplies     uint64
	RejectedCommands uint64 // commands refused: unknown, wrong number of arguments, not allowed
	BytesIn          uint64
	BytesOut         uint64
	ProtocolErrors   uint64
	AuthFailures     uint64
	QueryBufferKills uint64   // clients closed because of their query buffer's limit
	MemoryKills      uint64   // clients closed because all clients took too much memory
	ClientMemory     int64    // memory of all clients, in bytes
	OutputKills      uint64   // clients closed because of their output buffer's limit
	TimeoutKills     uint64   // clients closed because they were idle or did not read output
	Held             int      // connections with replies that wait for a commit
	Forwarded        uint64   // commands answered by the leader for clients of this node
	Degraded         uint64   // calls of limits and counters that the failure policy answered
	BackstopDenied   uint64   // calls in Degraded that on-failure open denied, because they were beyond the backstop
	BackstopFull     uint64   // keys that on-failure open forgot, and calls that it did not count, because memory was full
	Undecided        uint64   // commands refused because there was no leader, or undone because it changed
	Uncertain        uint64   // commands answered UNCERTAIN
	PublishDropped   uint64   // messages of PUBLISH and SPUBLISH that were not sent to another node
	Redirects        []uint64 // commands answered MOVED, by the index of the partition
	Decided          []uint64 // decisions of limits, without those of scripts, by the index of the partition
	TwoGroups        checks.TwoGroups
}

// streamStripes is how many sets of counters the streams share. It is enough that two
// streams seldom use the same set at the same time.
const streamStripes = 4

// counters is one stripe of the counts of batches. Each event loop has its own, so that no
// two loops write to the same cache line.
type counters struct {
	commands atomic.Uint64
	errors   atomic.Uint64
	rejected atomic.Uint64
	bytesIn  atomic.Uint64
	bytesOut atomic.Uint64
	calls    []atomic.Uint64 // by command.Spec.Index, like the next four
	refused  []atomic.Uint64 // error replies of commands that were not run
	failed   []atomic.Uint64 // error replies of commands that were run
	passed   []atomic.Uint64 // decisions of limits
	denied   []atomic.Uint64
	decided  []atomic.Uint64 // decisions of limits, by the index of the partition; not those of scripts
	_        [64]byte
}

// count is the index of a count of rare events, which has no stripes.
type count int

const (
	countReceived count = iota
	countRejectedClients
	countAcceptErrors
	countProtocolErrors
	countAuthFailures
	countQueryBufferKills
	countMemoryKills
	countOutputKills
	countTimeoutKills
	countForwarded
	countDegraded
	countUndecided
	countUncertain
	countPublishDropped
	counts // number of counts
)

// serverStats are the server's counts.
type serverStats struct {
	stripes    []*counters
	nextStripe atomic.Uint64
	durations  []histogram // by command.index
	counts     [counts]atomic.Uint64
	errors     errorCounts
}

// errorCounts counts error replies by their codes, such as WRONGTYPE.
type errorCounts struct {
	mu     sync.Mutex
	byCode map[string]*uint64 // guarded by mu
}

const (
	// maxErrorCodes bounds the number of codes, because scripts invent their own. An error
	// with a further code, or with a code that is not one word, counts under otherErrors.
	maxErrorCodes = 128
	maxErrorCode  = 32
	otherErrors   = "OTHER"
)

// count counts an error reply. text begins after the reply's first byte.
func (e *errorCounts) count(text []byte) {
	code := text[:min(len(text), maxErrorCode+1)]
	if i := bytes.IndexAny(code, " \r"); i >= 0 {
		code = code[:i]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.byCode[string(code)]
	if n == nil {
		name := string(code)
		if len(e.byCode) >= maxErrorCodes || !isErrorCode(code) {
			name = otherErrors
		}
		if n = e.byCode[name]; n == nil {
			if e.byCode == nil {
				e.byCode = make(map[string]*uint64)
			}
			n = new(uint64)
			e.byCode[name] = n
		}
	}
	*n++
}

// isErrorCode reports whether INFO can show a word as an error's code.
func isErrorCode(word []byte) bool {
	for _, b := range word {
		if b != '_' && b != '-' && (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') {
			return false
		}
	}
	return 0 < len(word) && len(word) <= maxErrorCode
}

// each calls fn with every code, in order.
func (e *errorCounts) each(fn func(code string, n uint64)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(e.byCode)) {
		fn(code, *e.byCode[code])
	}
}

func (e *errorCounts) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.byCode)
}

func (st *serverStats) init(t *command.Table, stripes, partitions int) {
	for range stripes {
		st.stripes = append(st.stripes, &counters{
			calls:   make([]atomic.Uint64, t.Count()),
			refused: make([]atomic.Uint64, t.Count()),
			failed:  make([]atomic.Uint64, t.Count()),
			passed:  make([]atomic.Uint64, t.Count()),
			denied:  make([]atomic.Uint64, t.Count()),
			decided: make([]atomic.Uint64, partitions),
		})
	}
	st.durations = make([]histogram, t.Count())
}

// stripe returns the counters of a new lane.
func (s *Server) stripe() *counters {
	return s.stats.stripes[s.stats.nextStripe.Add(1)%uint64(len(s.stats.stripes))]
}

// sum returns the sum of one counter over all stripes.
func (st *serverStats) sum(pick func(*counters) *atomic.Uint64) uint64 {
	var n uint64
	for _, c := range st.stripes {
		n += pick(c).Load()
	}
	return n
}

// Stats returns the current counts.
func (s *Server) Stats() Stats {
	st := &s.stats
	var held int64
	s.eachLane(func(l *lane) { held += l.waiting.Load() })
	var backstop engine.BackstopCounts
	for _, p := range s.parts {
		n := p.Backstop()
		backstop.Denied += n.Denied
		backstop.Forgotten += n.Forgotten
	}
	redirects := make([]uint64, len(s.redirects))
	for i := range s.redirects {
		redirects[i] = s.redirects[i].Load()
	}
	decided := make([]uint64, len(s.parts))
	for i := range decided {
		decided[i] = st.sum(func(c *counters) *atomic.Uint64 { return &c.decided[i] })
	}
	return Stats{
		Clients:          int(s.clients.admitted.Load()),
		Received:         st.counts[countReceived].Load(),
		Rejected:         st.counts[countRejectedClients].Load(),
		AcceptErrors:     st.counts[countAcceptErrors].Load(),
		Commands:         st.sum(func(c *counters) *atomic.Uint64 { return &c.commands }),
		ErrorReplies:     st.sum(func(c *counters) *atomic.Uint64 { return &c.errors }),
		RejectedCommands: st.sum(func(c *counters) *atomic.Uint64 { return &c.rejected }),
		BytesIn:          st.sum(func(c *counters) *atomic.Uint64 { return &c.bytesIn }),
		BytesOut:         st.sum(func(c *counters) *atomic.Uint64 { return &c.bytesOut }),
		ProtocolErrors:   st.counts[countProtocolErrors].Load(),
		AuthFailures:     st.counts[countAuthFailures].Load(),
		QueryBufferKills: st.counts[countQueryBufferKills].Load(),
		MemoryKills:      st.counts[countMemoryKills].Load(),
		ClientMemory:     s.memory.Total(),
		OutputKills:      st.counts[countOutputKills].Load(),
		TimeoutKills:     st.counts[countTimeoutKills].Load(),
		Held:             int(held),
		Forwarded:        st.counts[countForwarded].Load(),
		Degraded:         st.counts[countDegraded].Load(),
		BackstopDenied:   backstop.Denied,
		BackstopFull:     backstop.Forgotten,
		Undecided:        st.counts[countUndecided].Load(),
		Uncertain:        st.counts[countUncertain].Load(),
		PublishDropped:   st.counts[countPublishDropped].Load(),
		Redirects:        redirects,
		Decided:          decided,
		TwoGroups:        s.checks.TwoGroups(),
	}
}

// Decisions holds how many decisions of limits a command has made, by outcome.
type Decisions struct {
	Command         string
	Allowed, Denied uint64
}

// Decisions returns the outcomes by command, for the commands that have any.
func (s *Server) Decisions() []Decisions {
	var out []Decisions
	s.table.Each(func(cmd *command.Spec) {
		d := Decisions{Command: cmd.Full}
		for _, c := range s.stats.stripes {
			d.Allowed += c.passed[cmd.Index].Load()
			d.Denied += c.denied[cmd.Index].Load()
		}
		if d.Allowed+d.Denied > 0 {
			out = append(out, d)
		}
	})
	return out
}

// decisions returns the sums over all commands.
func (st *serverStats) decisions() (passed, denied uint64) {
	for _, c := range st.stripes {
		for i := range c.calls {
			passed += c.passed[i].Load()
			denied += c.denied[i].Load()
		}
	}
	return passed, denied
}

// reset sets every count to zero.
func (st *serverStats) reset() {
	for _, c := range st.stripes {
		for _, n := range []*atomic.Uint64{&c.commands, &c.errors, &c.rejected, &c.bytesIn, &c.bytesOut} {
			n.Store(0)
		}
		for i := range c.calls {
			c.calls[i].Store(0)
			c.refused[i].Store(0)
			c.failed[i].Store(0)
			c.passed[i].Store(0)
			c.denied[i].Store(0)
		}
		for i := range c.decided {
			c.decided[i].Store(0)
		}
	}
	st.resetDurations()
	st.errors.reset()
	for i := range st.counts {
		st.counts[i].Store(0)
	}
}

// resetDurations empties the histograms.
func (st *serverStats) resetDurations() {
	for i := range st.durations {
		st.durations[i].reset()
	}
}

// durationBuckets is the number of buckets of a histogram. The last bucket counts durations
// of more than 18 minutes.
const durationBuckets = 32

// histogram counts durations in buckets whose bounds are powers of two in µs, as LATENCY
// HISTOGRAM shows them.
type histogram struct {
	count   atomic.Uint64
	sum     atomic.Uint64 // ns
	buckets [durationBuckets]atomic.Uint64
}

func (h *histogram) add(d time.Duration) {
	h.count.Add(1)
	h.sum.Add(uint64(d))
	// Bucket i holds up to 2^i µs.
	i := bits.Len64(uint64(max(d-1, 0) / time.Microsecond))
	h.buckets[min(i, len(h.buckets)-1)].Add(1)
}

// cumulative returns, for each bucket, how many durations are in that bucket and in lower
// ones.
func (h *histogram) cumulative() (upTo [durationBuckets]uint64) {
	var total uint64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		upTo[i] = total
	}
	return upTo
}

func (h *histogram) reset() {
	h.count.Store(0)
	h.sum.Store(0)
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
}

// record notes how long a command took. It also shows EXEC to MONITOR, after the commands
// of the transaction.
func (s *Server) record(c *conn, cmd *command.Spec, args [][]byte, took time.Duration) {
	s.stats.durations[cmd.Index].add(took)
	s.slow.observe(c, cmd, args, took)
	if cmd.Flags&command.Exec != 0 && s.mode.Load()&uint32(modeMonitors) != 0 {
		c.show(cmd, args)
	}
}

// Durations holds the durations of a command's calls. For a command that is not fast, every
// call counts. For a fast command, the first call of about one batch in sixty-four counts.
// LATENCY RESET and CONFIG RESETSTAT reset the durations.
type Durations struct {
	Command string
	Count   uint64
	Sum     time.Duration
	// UpTo[i] is how many calls took at most 2^i µs.
	UpTo []uint64
}

// Durations returns the durations of the commands that were timed.
func (s *Server) Durations() []Durations {
	var out []Durations
	s.table.Each(func(cmd *command.Spec) {
		h := &s.stats.durations[cmd.Index]
		upTo := h.cumulative()
		if n := upTo[len(upTo)-1]; n > 0 {
			out = append(out, Durations{cmd.Full, n, time.Duration(h.sum.Load()), upTo[:]})
		}
	})
	return out
}

// rate computes the rate of a running total between two readings. It costs nothing while
// nobody reads.
type rate struct {
	mu   sync.Mutex
	at   time.Time // guarded by mu, like the fields below
	n    uint64
	last float64
}

func (r *rate) perSecond(n uint64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if d := now.Sub(r.at); d >= rateWindow {
		if !r.at.IsZero() && n >= r.n {
			r.last = float64(n-r.n) / d.Seconds()
		}
		r.at, r.n = now, n
	}
	return int64(r.last)
}

// rateWindow is the shortest time over which rates are computed. More frequent readers get
// the same figure.
const rateWindow = time.Second
