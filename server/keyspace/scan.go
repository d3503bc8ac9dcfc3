package keyspace

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

const (
	// scanDefault is Redis's default COUNT.
	scanDefault = 10
	// ScanInline is the most keys that a call collects on an event loop, at about 100 ns
	// each. A call with a larger COUNT, or with a costly pattern, runs on a worker.
	ScanInline = 256
	// scanBatch is how many keys are copied before they are matched. scanSteps bounds the
	// steps of matching, and also the bytes of keys, in one call.
	scanBatch       = 16
	scanSteps       = 4 << 20
	scanStepsInline = 256 << 10
	// ScanMost bounds the number of keys in one reply, even if COUNT is larger.
	ScanMost = 100_000
)

// scanCall is a parsed SCAN.
type scanCall struct {
	cursor  uint64
	count   int
	pattern *glob.Pattern // nil matches all
	kind    string        // "" means all
}

// The errors begin with their codes.
func parseScan(args [][]byte) (s scanCall, err error) {
	s.count = scanDefault
	cursor, ok := resp.ParseInt(args[0])
	if !ok || cursor < 0 {
		return s, errors.New("ERR invalid cursor")
	}
	s.cursor = uint64(cursor)
	for args = args[1:]; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return s, command.ErrSyntax
		}
		switch {
		case command.EqualFold(args[0], "match"):
			if s.pattern, err = glob.Compile(string(args[1])); err != nil {
				return s, command.EngineError(err)
			}
		case command.EqualFold(args[0], "count"):
			n, ok := resp.ParseInt(args[1])
			if !ok {
				return s, command.ErrNotInteger
			}
			if n < 1 {
				return s, command.ErrSyntax
			}
			s.count = int(min(n, ScanMost))
		case command.EqualFold(args[0], "type"):
			s.kind = string(args[1])
		default:
			return s, command.ErrSyntax
		}
	}
	return s, nil
}

// run collects the keys of one call. After too many steps it ends early; the reply's cursor
// then continues from there. It copies keys under the lock of their shard, and matches them
// without the lock. If the engine fails, run replies the error and returns it.
func (s *scanCall) run(sess *engine.Session, now int64, most int, w *resp.Writer) error {
	var keys, batch []string
	cursor := s.cursor
	for left, steps := s.count, 0; left > 0 && steps < most; {
		batch = batch[:0]
		seen := 0
		var err error
		cursor, err = sess.Scan(now, cursor, min(left, scanBatch), func(key []byte, kind algo.Algorithm) {
			seen++
			if s.kind == "" || strings.EqualFold(s.kind, kind.Type()) {
				batch = append(batch, string(key))
			}
		})
		if err != nil {
			w.Error(command.EngineError(err).Error())
			return err
		}
		for _, key := range batch {
			steps += len(key)
			if s.pattern != nil {
				steps += s.pattern.Steps(len(key))
			}
			if s.pattern == nil || s.pattern.Match(key) {
				keys = append(keys, key)
			}
		}
		if cursor == 0 {
			break
		}
		// Reading an empty part of the table costs a step too.
		left -= max(seen, 1)
	}
	w.Array(2)
	w.Bulk(strconv.AppendUint(nil, cursor, 10))
	WriteKeys(w, keys)
	return nil
}

// WriteKeys replies a list of keys.
func WriteKeys(w *resp.Writer, keys []string) {
	w.Array(len(keys))
	for _, k := range keys {
		w.BulkString(k)
	}
}

func scan(call *command.Call) {
	s, err := parseScan(call.Args[1:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	if call.InExec {
		s.count = min(s.count, ScanInline)
	}
	if call.InExec || s.count <= ScanInline && (s.pattern == nil || s.pattern.Light()) {
		call.Err = s.run(call.Sess, call.Now, scanStepsInline, call.W)
		return
	}
	sess, now := call.NewSession(), call.Now
	call.Host.Block(call, 0, func(w *resp.Writer) {
		defer sess.Close()
		_ = s.run(sess, now, scanSteps, w) // replied
	})
}

// keys replies every matching key. It collects only as many keys as fit into the output
// buffer, because a client above the buffer's limit is closed. A transaction blocks its
// thread, so in a transaction keys gives up after command.ExecTime.
func keys(call *command.Call) {
	sess, now, most, inExec := call.Sess, call.Now, call.Host.MostReply(), call.InExec
	pattern, err := glob.Compile(string(call.Args[1]))
	if err != nil {
		call.Error(command.EngineError(err).Error())
		return
	}
	if !inExec {
		sess = call.NewSession()
	}
	call.Host.Block(call, 0, func(w *resp.Writer) {
		if !inExec {
			defer sess.Close()
		}
		var keys, batch []string
		size, began := 0, time.Now()
		for cursor := uint64(0); ; {
			if inExec && time.Since(began) > command.ExecTime {
				w.Error(command.ErrExecTime)
				return
			}
			batch = batch[:0]
			var err error
			cursor, err = sess.Scan(now, cursor, ScanInline, func(key []byte, _ algo.Algorithm) {
				batch = append(batch, string(key))
			})
			if err != nil {
				w.Error(command.EngineError(err).Error())
				return
			}
			for _, key := range batch {
				if pattern.Match(key) {
					keys = append(keys, key)
					size += len(key) + KeyOverhead
				}
			}
			if size >= most {
				w.Error(ErrManyKeys)
				return
			}
			if cursor == 0 {
				break
			}
		}
		WriteKeys(w, keys)
	})
}

const (
	// KeyOverhead is the memory of a key in a reply, in bytes, without the key's own bytes.
	KeyOverhead = 16
	ErrManyKeys = "ERR the matching keys exceed client-output-buffer-limit, use SCAN"
)

func randomKey(call *command.Call) {
	key, ok, err := call.Sess.Random(call.Now, rand.Uint64)
	replyIf(call, ok, err, func() { call.W.Bulk(key) })
}
