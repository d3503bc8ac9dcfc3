package decisions

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/events"
)

// Bounds of the queue.
const (
	maxQueued = 4096
	// maxQueuedBytes bounds the memory of all records in the queue, in bytes.
	maxQueuedBytes = 8 << 20
	// maxArg bounds the bytes that are kept of an argument, and maxArgs those of all
	// arguments of a call. A call whose reply is longer than maxReply gets no line.
	maxArg   = 256
	maxArgs  = 8 << 10
	maxReply = 64 << 10
	// maxID is how many bytes of a request's id a line shows.
	maxID = 128
)

// closeTime is how long Close waits for an output that accepts no lines.
const closeTime = time.Second

// Config configures a Log.
type Config struct {
	// Out takes the lines, one line per Write.
	Out io.Writer
	// Logger logs that lines cannot be written.
	Logger *slog.Logger
	// Plain holds the names of attributes whose values lines show unhashed. * means all
	// attributes, and also keys of limits.
	Plain []string
	// Key is the key with which all other values are hashed; nil means a random key.
	Key []byte
}

// Redis is the front of the Redis protocol.
const Redis = "redis"

// Origin is where a call comes from.
type Origin struct {
	Front string // Redis, or another front's name in metrics
	// Request and Trace are ids from the client's request; "" if there are none.
	Request, Trace string
}

// TraceID returns the id of the trace in a traceparent (W3C Trace Context), "" if it is
// invalid.
func TraceID(traceparent string) string {
	if len(traceparent) > maxID {
		return ""
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// Asker is a request of a front, on whose behalf commands run.
type Asker interface{ Origin() Origin }

// Log is a decision log.
type Log struct {
	logger *slog.Logger
	lines  *slog.JSONHandler
	redact redactor

	denied atomic.Int64 // lines per second for denied and other notable calls
	oneIn  atomic.Int64 // one line per that many calls that pass; 0 means no lines
	ration events.PerSecond

	records chan record
	bytes   atomic.Int64 // memory of the queued records
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	failing bool // the last line could not be written; only the goroutine of run uses it

	written, beyond, full, failed atomic.Uint64
}

// record is a call with its reply.
type record struct {
	at     time.Time
	cmd    *command.Spec
	args   [][]byte
	reply  []byte
	origin Origin
	oneIn  int64
}

// size returns the memory of the record in bytes.
func (r *record) size() int64 {
	return int64(command.ArgsSize(r.args) + len(r.reply) + len(r.origin.Request) + len(r.origin.Trace))
}

// New returns a Log, which ignores calls until SetRates. Close ends it.
func New(c Config) *Log {
	l := &Log{
		logger: c.Logger, redact: newRedactor(c.Plain, c.Key),
		lines:   slog.NewJSONHandler(c.Out, &slog.HandlerOptions{ReplaceAttr: withoutLevel}),
		records: make(chan record, maxQueued), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// SetRates sets the sample. denied is how many lines per second denied and other notable
// calls get. Of the calls that pass, one in oneIn gets a line. 0 means no lines.
func (l *Log) SetRates(denied, oneIn int64) {
	l.denied.Store(denied)
	l.oneIn.Store(oneIn)
}

// Note adds a command about limits and its reply, in RESP2 or RESP3. It copies what it
// keeps of them.
func (l *Log) Note(cmd *command.Spec, args [][]byte, reply []byte, from Origin) {
	r := record{cmd: cmd, origin: from, oneIn: 1}
	switch classOf(cmd.Name, reply) {
	case passed:
		if r.oneIn = l.oneIn.Load(); r.oneIn == 0 || rand.Int64N(r.oneIn) != 0 {
			return
		}
	case told:
		most := l.denied.Load()
		if most == 0 {
			return
		}
		if !l.ration.May(time.Now().UnixNano(), most) {
			l.beyond.Add(1)
			return
		}
	default:
		return
	}
	if len(reply) > maxReply {
		l.full.Add(1)
		return
	}
	r.at = time.Now()
	r.args, r.reply = clipped(cmd.Public(args)), append([]byte(nil), reply...)
	size := r.size()
	if l.bytes.Add(size) <= maxQueuedBytes {
		select {
		case l.records <- r:
			return
		default:
		}
	}
	l.bytes.Add(-size)
	l.full.Add(1)
}

// clipped returns copies of arguments, cut to the kept length.
func clipped(args [][]byte) [][]byte {
	var out [][]byte
	left := maxArgs
	for _, a := range args {
		a = command.Clip(a, maxArg)
		if left -= len(a) + command.ArgOverhead; left < 0 {
			break
		}
		out = append(out, a)
	}
	return command.CloneArgs(out)
}

// run writes the queued records, until Close.
func (l *Log) run() {
	defer close(l.done)
	for {
		select {
		case r := <-l.records:
			l.write(&r)
		case <-l.stop:
			for len(l.records) > 0 {
				r := <-l.records
				l.write(&r)
			}
			return
		}
	}
}

// write writes the line of a record. If that fails repeatedly, it logs the failure once.
func (l *Log) write(r *record) {
	l.bytes.Add(-r.size())
	err := l.lines.Handle(context.Background(), l.line(r))
	switch {
	case err != nil:
		if l.failed.Add(1); !l.failing {
			l.logger.Error("decision-log cannot be written", "error", err)
		}
	case l.failing:
		l.logger.Info("decision-log is written again", "lost_since_start", l.failed.Load())
	}
	if l.failing = err != nil; !l.failing {
		l.written.Add(1)
	}
}

// Stats counts the lines written and, by reason, the calls that got none.
type Stats struct {
	Written uint64
	// Beyond counts calls above the number of lines per second. Full counts calls that
	// found the queue full or were too long. Failed counts calls whose lines could not be
	// written.
	Beyond, Full, Failed uint64
}

// Stats returns the counts since the node's start. It may be called on a nil Log.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	return Stats{l.written.Load(), l.beyond.Load(), l.full.Load(), l.failed.Load()}
}

// Close writes the queued records, for at most closeTime. It may be called on a nil Log.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.stopped.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-time.After(closeTime):
	}
}
