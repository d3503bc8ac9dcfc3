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
	// maxQueuedBytes bounds the memory of all records in the queue.
	maxQueuedBytes = 8 << 20
	// maxArg and maxArgs bound the kept bytes of an argument and of all arguments of a
	// call. A call with a reply longer than maxReply gets no line.
	maxArg   = 256
	maxArgs  = 8 << 10
	maxReply = 64 << 10
	// maxID is how many bytes of a request's id are shown.
	maxID = 128
)

// closeTime is how long Close waits for an output that does not read.
const closeTime = time.Second

// Config configures a Log.
type Config struct {
	// Out takes the lines, one a Write.
	Out io.Writer
	// Logger logs that they cannot be written.
	Logger *slog.Logger
	// Plain are the names of attributes whose values are shown; * means all of them, and
	// keys of limits too.
	Plain []string
	// Key is the key of the hashes of all other values; nil means a random one.
	Key []byte
}

// Redis is the front of the Redis protocol.
const Redis = "redis"

// Origin is where a call comes from.
type Origin struct {
	Front string // Redis, or a front's name in metrics
	// Request and Trace are ids in the client's request, "" for none.
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

// Asker is a front's request for which commands run.
type Asker interface{ Origin() Origin }

// Log is a decision log.
type Log struct {
	logger *slog.Logger
	lines  *slog.JSONHandler
	redact redactor

	denied atomic.Int64 // lines a second
	oneIn  atomic.Int64 // of the calls that pass; 0 means none
	ration events.PerSecond

	records chan record
	bytes   atomic.Int64 // of the records
	stop    chan struct{}
	stopped sync.Once
	done    chan struct{}
	failing bool // the last line could not be written; only run uses it

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

// New returns a Log that takes nothing until SetRates. Close ends it.
func New(c Config) *Log {
	l := &Log{
		logger: c.Logger, redact: newRedactor(c.Plain, c.Key),
		lines:   slog.NewJSONHandler(c.Out, &slog.HandlerOptions{ReplaceAttr: withoutLevel}),
		records: make(chan record, maxQueued), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// SetRates sets how many lines a second denied and other notable calls get, and that one in
// oneIn of the calls that pass gets one. 0 means none.
func (l *Log) SetRates(denied, oneIn int64) {
	l.denied.Store(denied)
	l.oneIn.Store(oneIn)
}

// Note takes a command about limits with its reply, in either protocol. It keeps neither.
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

// clipped copies arguments, as far as they are kept.
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

// run writes what is queued, until Close.
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

// write writes the line of a record. It logs once that this fails.
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
	// Beyond counts calls above the lines of a second. Full counts calls that found the
	// queue full or were too long. Failed counts calls that could not be written.
	Beyond, Full, Failed uint64
}

// Stats returns the counts since the start. A nil Log has none.
func (l *Log) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	return Stats{l.written.Load(), l.beyond.Load(), l.full.Load(), l.failed.Load()}
}

// Close writes the queue for at most a second. A nil Log has none.
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
