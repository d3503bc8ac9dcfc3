package scripts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

// Scripts holds a server's Lua scripts: the texts that clients have sent, and the runs that
// execute them. All methods are safe for concurrent use.
type Scripts struct {
	cfg   Config
	table *command.Table
	// PUBLISH and SPUBLISH. In a script their messages are sent when the script ends.
	publish, spublish *command.Spec

	cache *script.Cache
	env   *script.Environment
	made  atomic.Uint32 // number of runs made
	calls atomic.Uint32 // number of threads that have called known scripts
	known []script.Runs // counts of known scripts, by native.Script's Index

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*run
	closed bool // runs are no longer kept for reuse
	// slow holds the runs that are on workers.
	slow map[*run]struct{}
}

// Config configures Scripts. All fields except Strays must be set.
type Config struct {
	Engines []*engine.Engine // of all groups. The first replicates the texts of scripts
	Hub     *pubsub.Hub      // sends what scripts publish, and shows MONITOR what they call
	Account *memory.Account  // for the memory of runs
	// Aside makes a connection without a client.
	Aside func() Aside
	// Version is the version of Redis that scripts see.
	Version string
	// MaxReply bounds a reply, and MaxMessages bounds what one script publishes, in bytes.
	MaxReply, MaxMessages int
	// Strays reports whether a script with these KEYS may not call a command, because the
	// command's keys may be in another engine. nil means that there is one engine.
	Strays func(keys [][]byte, cmd *command.Spec, args [][]byte) bool
	// Time returns how long a script may compute on a worker; 0 means 5 s.
	Time func() time.Duration
	// Exec returns how long a script in EXEC may run on its client's thread.
	Exec func() time.Duration
	// Ended is called after each slow run, which may have freed much memory.
	Ended func()
	// Ending is done when the server ends.
	Ending context.Context
	Logger *slog.Logger
}

// Aside is a connection without a client. It runs the commands that scripts call, and takes
// their replies. Only one goroutine may use it at a time.
type Aside interface {
	// Host returns the host of the calls.
	Host() command.Host
	// Writer returns the writer that takes the replies.
	Writer() *resp.Writer
	// Begin begins an attempt at the time now, in Unix ns, in a database, on behalf of the
	// client at addr.
	Begin(now int64, db uint8, addr string)
	// Speak sets the protocol of the next replies: RESP3 or RESP2.
	Speak(resp3 bool)
	// Database returns the connection's database, which SELECT may have changed.
	Database() uint8
	// Count counts a call that was run.
	Count(call *command.Call, failed bool)
	Close()
}

// New returns Scripts. Call Use before anything else, and Close at the end.
func New(c Config) *Scripts {
	env := script.NewEnvironment(c.Version)
	return &Scripts{
		cfg: c, env: env, cache: script.NewCache(env, store{c.Engines[0]}),
		known: make([]script.Runs, len(native.All())), slow: make(map[*run]struct{}),
	}
}

// Use sets the table of the commands that scripts may call. The table may include the
// commands of Scripts.
func (s *Scripts) Use(t *command.Table) {
	s.table, s.publish, s.spublish = t, t.ByFullName([]byte("publish")), t.ByFullName([]byte("spublish"))
}

// idleRuns is how many unused runs are kept: about as many as there are loops and workers.
const idleRuns = 16

// borrow returns a run for use. The caller returns it with give.
func (s *Scripts) borrow() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		r := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return r
	}
	return s.newRun()
}

func (s *Scripts) give(r *run) {
	s.mu.Lock()
	if len(s.idle) < idleRuns && !s.closed {
		s.idle = append(s.idle, r)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	r.close()
}

// Close closes the unused runs. A caller that Shutdown has cut off may still use a run,
// which closes when the caller gives it back.
func (s *Scripts) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, r := range idle {
		r.close()
	}
}

// begin notes that a run is now on a worker. end notes that it no longer is.
func (s *Scripts) begin(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow[r] = struct{}{}
}

func (s *Scripts) end(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slow, r)
	r.ended.Store(nil) // a script on a loop may use the run next
}

// HandOver ends the scripts and transactions on workers, because this leader is about to
// hand over.
func (s *Scripts) HandOver() { s.endAll(errHandedOver) }

// Kill ends the scripts and transactions on workers, and reports whether any were running.
func (s *Scripts) Kill() bool { return s.endAll(errScriptKilled) }

// endAll ends the scripts and transactions on workers with an error, and reports whether
// any were running.
func (s *Scripts) endAll(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.slow {
		r.ended.CompareAndSwap(nil, &err) // the first reason stays
	}
	return len(s.slow) > 0
}

// Slow returns how many scripts and transactions are on workers.
func (s *Scripts) Slow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slow)
}

// Cached returns the number of cached scripts, and the size of their texts in bytes.
func (s *Scripts) Cached() (n, bytes int) { return s.cache.Len(), s.cache.Bytes() }

// store keeps the texts of scripts in replicated records of the engine, so that they
// outlive this node.
type store struct{ e *engine.Engine }

func (t store) Kept() bool            { return t.e.ScriptsKept() }
func (t store) Generation() uint64    { return t.e.ScriptsGone() }
func (t store) Holds(sha string) bool { return t.e.HasScript(sha) }

func (t store) Text(sha string) (body string, loaded, ok bool) {
	sc, ok := t.e.Script(sha)
	return sc.Body, sc.Loaded, ok
}

// load compiles a text and stores it, here and on the other nodes; see also
// script.Cache.KeepHere. sess must belong to a
// node that decides. If pause is not nil, load calls it now and then.
func (s *Scripts) load(sess *engine.Session, body []byte, keep bool, pause func()) (*script.Script, error) {
	sc, dropped, err := s.cache.LoadPausing(body, keep, pause)
	if sess.Engine() != s.cfg.Engines[0] {
		// EVAL on keys of another engine, which keeps no texts. The leader of the first may
		// be another node, so the text stays on this node.
		if err == nil {
			s.cache.KeepHere(sc)
		}
		return sc, err
	}
	if len(dropped) > 0 {
		err = errors.Join(err, sess.DropScripts(dropped...))
	}
	if err != nil {
		return nil, err
	}
	return sc, s.keep(sess, sc)
}

// keep stores the text of a script on the other nodes.
func (s *Scripts) keep(sess *engine.Session, sc *script.Script) error {
	text := engine.Script{Body: sc.Body, Loaded: s.cache.Loaded(sc)}
	err := sess.PutScript(sc.SHA, text)
	for errors.Is(err, engine.ErrScriptsFull) {
		gone := s.strangers(sess.Engine())
		if len(gone) == 0 {
			break
		}
		if err = sess.DropScripts(gone...); err == nil {
			err = sess.PutScript(sc.SHA, text)
		}
	}
	return err
}

const (
	// strangersGone is how many unused texts are removed at a time to make room.
	// strangersSeen is how many texts are examined to find them.
	strangersGone = 64
	strangersSeen = 1024
)

// strangers returns some texts that can be removed to make room. An earlier leader has
// stored them, and nobody has used them since this node became leader. It chooses texts
// from SCRIPT LOAD only if it finds no others. The cache's bound is lower than the store's,
// so there are always such texts when the store is full.
func (s *Scripts) strangers(e *engine.Engine) []string {
	var evaluated, loaded []string
	seen := 0
	e.Scripts(func(sha string, isLoaded bool) bool {
		seen++
		switch {
		case s.cache.Has(sha):
		case !isLoaded:
			evaluated = append(evaluated, sha)
		case len(loaded) < strangersGone:
			loaded = append(loaded, sha)
		}
		return len(evaluated) < strangersGone && (seen < strangersSeen || len(evaluated)+len(loaded) == 0)
	})
	if len(evaluated) > 0 {
		return evaluated
	}
	return loaded
}
