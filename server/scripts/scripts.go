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

// Scripts is a server's Lua: the scripts that clients have sent, and what runs them. All
// methods may be called by any goroutine.
type Scripts struct {
	cfg   Config
	table *command.Table
	// PUBLISH and SPUBLISH, which take effect when the script ends.
	publish, spublish *command.Spec

	cache *script.Cache
	env   *script.Environment
	made  atomic.Uint32 // runs
	calls atomic.Uint32 // threads with calls of known scripts
	known []script.Runs // native ones, by native.Script's Index

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*run
	closed bool // runs are no longer reused
	// slow are the runs on workers.
	slow map[*run]struct{}
}

// Config configures Scripts. All fields must be set.
type Config struct {
	Engine  *engine.Engine  // stores texts beyond the life of this node
	Hub     *pubsub.Hub     // takes what scripts publish, and shows what they call
	Account *memory.Account // for the memory of runs
	// Aside makes a connection without a client.
	Aside func() Aside
	// Version is the version of Redis that scripts see.
	Version string
	// MaxReply and MaxMessages bound a reply, and what a script publishes, in bytes.
	MaxReply, MaxMessages int
	// Time returns how long a script may compute; 0 is 5 s.
	Time func() time.Duration
	// Exec returns how long a script within EXEC may run on its client's thread.
	Exec func() time.Duration
	// Ended is called when a slow run has ended, which may have freed much memory.
	Ended func()
	// Ending is done when the server ends.
	Ending context.Context
	Logger *slog.Logger
}

// Aside is a connection without a client. It runs the commands that scripts call, and takes
// their replies. One goroutine uses it at a time.
type Aside interface {
	// Host is the host of the calls.
	Host() command.Host
	// Writer takes the replies.
	Writer() *resp.Writer
	// Begin begins an attempt at a time, in a database, for a client at an address.
	Begin(now int64, db uint8, addr string)
	// Speak chooses the protocol of the next replies.
	Speak(resp3 bool)
	// Database returns the connection's database: SELECT may have changed it.
	Database() uint8
	// Count counts a call that was run.
	Count(call *command.Call, failed bool)
	Close()
}

// New returns Scripts. Use makes it usable, Close ends it.
func New(c Config) *Scripts {
	env := script.NewEnvironment(c.Version)
	return &Scripts{
		cfg: c, env: env, cache: script.NewCache(env, store{c.Engine}),
		known: make([]script.Runs, len(native.All())), slow: make(map[*run]struct{}),
	}
}

// Use makes scripts call the commands of a table, which may include those of Scripts.
func (s *Scripts) Use(t *command.Table) {
	s.table, s.publish, s.spublish = t, t.ByFullName([]byte("publish")), t.ByFullName([]byte("spublish"))
}

// idleRuns is how many runs are kept for reuse: about as many as there are loops and
// workers.
const idleRuns = 16

// borrow returns a run for use; give takes it back.
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

// Close closes the idle runs. A Caller that Shutdown has cut off may still use one, which
// closes when it is given back.
func (s *Scripts) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, r := range idle {
		r.close()
	}
}

// begin notes that a run is on a worker, end that it no longer is.
func (s *Scripts) begin(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow[r] = struct{}{}
}

func (s *Scripts) end(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slow, r)
	r.ended.Store(nil) // the run goes on to scripts on loops
}

// HandOver ends the scripts and transactions on workers: the leader hands over.
func (s *Scripts) HandOver() { s.endAll(errHandedOver) }

// Kill ends the scripts and transactions on workers, and reports whether any were running.
func (s *Scripts) Kill() bool { return s.endAll(errScriptKilled) }

// endAll ends the scripts on workers with an error, and reports whether any were running.
func (s *Scripts) endAll(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.slow {
		r.ended.CompareAndSwap(nil, &err) // it keeps the first reason
	}
	return len(s.slow) > 0
}

// Slow returns how many scripts and transactions are on workers.
func (s *Scripts) Slow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slow)
}

// Cached returns how many scripts are cached, and their size in bytes.
func (s *Scripts) Cached() (n, bytes int) { return s.cache.Len(), s.cache.Bytes() }

// store stores the texts of scripts beyond the life of this node, as replicated records of
// the engine.
type store struct{ e *engine.Engine }

func (t store) Kept() bool            { return t.e.ScriptsKept() }
func (t store) Generation() uint64    { return t.e.ScriptsGone() }
func (t store) Holds(sha string) bool { return t.e.HasScript(sha) }

func (t store) Text(sha string) (body string, loaded, ok bool) {
	sc, ok := t.e.Script(sha)
	return sc.Body, sc.Loaded, ok
}

// load compiles a text and stores it, here and on the other nodes. sess belongs to a node
// that decides. load calls pause now and then, if it is not nil.
func (s *Scripts) load(sess *engine.Session, body []byte, keep bool, pause func()) (*script.Script, error) {
	sc, dropped, err := s.cache.LoadPausing(body, keep, pause)
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
	// strangersGone is how many unused texts make room at once. strangersSeen is how many
	// texts are examined for this.
	strangersGone = 64
	strangersSeen = 1024
)

// strangers returns some texts that an earlier leader stored and nobody has used since this
// node leads, to make room. Texts from SCRIPT LOAD are chosen only if no others are found.
// The cache's bound is below the store's, so such texts exist.
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
