package raftlog

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/headgate-io/headgate/internal/logdedup"
)

// raftLogger lets Raft log through slog. Raft's levels are one step too high for a
// server's log: routine work of elections and pipelines has the level Info, and while a
// peer is down, Raft logs an Error several times per second. So Info becomes Debug, and
// Error becomes Warn. The group itself reports what matters to an operator. Warnings of
// a normal start, and of a follower that catches up, become Debug too. Of the warnings
// about one peer, one is logged per logdedup.Interval, with the number of skipped
// warnings.
type raftLogger struct {
	l       *slog.Logger
	name    string
	args    []any
	repeats *logdedup.Filter
}

// peerArgs are the keys under which Raft's warnings name a peer.
var peerArgs = []any{"peer", "server-id", "target", "from", "candidate"}

// routine lists warnings of Raft that belong to a normal start or election. Warnings about
// an unreachable peer or a lost leader are not in the list.
var routine = []string{
	"no known peers, aborting election",
	"not part of stable configuration, aborting election",
	"heartbeat timeout reached, not part of a stable configuration or a non-voter, not triggering a leader election",
	"rejecting vote request since we have a leader",
	"rejecting vote request since our last term is greater",
	"rejecting vote request since our last index is greater",
	"rejecting vote request since node is not in configuration",
	"rejecting pre-vote request since we have a leader",
	"rejecting pre-vote request since our last term is greater",
	"rejecting pre-vote request since our last index is greater",
	"rejecting pre-vote request since node is not in configuration",
	"duplicate requestVote from",
	"peer has newer term, stopping replication",
	"failed to get previous log",
	"previous log term mis-match",
	"appendEntries rejected, sending older logs",
}

// isRoutine reports whether a warning belongs to normal operation. That includes an
// election at a node that has known no leader.
func isRoutine(msg string, args []any) bool {
	if msg == "heartbeat timeout reached, starting election" {
		i := slices.Index(args, any("last-leader-addr"))
		return i >= 0 && i+1 < len(args) && fmt.Sprint(args[i+1]) == ""
	}
	return slices.Contains(routine, msg)
}

// taken lists the keys that all log lines have. Raft's own keys of the same name get a
// prefix, because parsers disagree about a JSON object in which a key occurs twice.
var taken = []any{slog.TimeKey, slog.LevelKey, slog.MessageKey, "node", "group"}

var _ hclog.Logger = (*raftLogger)(nil)

func newRaftLogger(l *slog.Logger) hclog.Logger {
	return &raftLogger{l: l, repeats: new(logdedup.Filter)}
}

func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	lv := slog.LevelDebug
	if level >= hclog.Warn && !isRoutine(msg, args) {
		lv = slog.LevelWarn
	}
	if !r.l.Enabled(context.Background(), lv) {
		return
	}
	key := msg
	out := make([]any, len(args))
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			a = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		if i%2 == 0 && slices.Contains(taken, a) {
			a = fmt.Sprint("raft_", a)
		}
		out[i] = a
		if i%2 == 1 && slices.Contains(peerArgs, args[i-1]) {
			key += fmt.Sprint(" ", a)
		}
	}
	if lv == slog.LevelWarn {
		r.repeats.Warn(r.l, key, "raft: "+msg, out...)
		return
	}
	r.l.Log(context.Background(), lv, "raft: "+msg, out...)
}

func (r *raftLogger) Trace(msg string, args ...any) {}
func (r *raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLogger) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLogger) IsTrace() bool { return false }
func (r *raftLogger) IsDebug() bool { return r.l.Enabled(context.Background(), slog.LevelDebug) }
func (r *raftLogger) IsInfo() bool  { return r.IsDebug() }
func (r *raftLogger) IsWarn() bool  { return r.l.Enabled(context.Background(), slog.LevelWarn) }
func (r *raftLogger) IsError() bool { return r.IsWarn() }

func (r *raftLogger) ImpliedArgs() []any { return r.args }

func (r *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{l: r.l.With(args...), name: r.name, args: append(r.args[:len(r.args):len(r.args)], args...), repeats: r.repeats}
}

func (r *raftLogger) Name() string { return r.name }

func (r *raftLogger) Named(name string) hclog.Logger { return r.ResetNamed(name) }
func (r *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{r.l, name, r.args, r.repeats}
}

// SetLevel does nothing, because the slog handler decides the level.
func (r *raftLogger) SetLevel(hclog.Level) {}

func (r *raftLogger) GetLevel() hclog.Level {
	if r.IsDebug() {
		return hclog.Debug
	}
	return hclog.Warn
}

func (r *raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(r.l.Handler(), slog.LevelDebug)
}

func (r *raftLogger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return r.StandardLogger(o).Writer()
}
