package server

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
)

// scripts is what the server has of Lua: the scripts that clients have sent,
// and what runs them.
type scripts struct {
	cache *script.Cache
	env   *script.Environment
	made  atomic.Uint32 // runs
	known []script.Runs // native ones, by native.Script's Index

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*scriptRun
	closed bool // no run is kept any more
	// slow are the runs on workers.
	slow map[*scriptRun]struct{}
}

// idleRuns is how many runs are kept for the next scripts: loops and workers
// are about as many.
const idleRuns = 16

func (s *scripts) init(store script.Store) {
	s.env = script.NewEnvironment(redisVersion)
	s.cache = script.NewCache(s.env, store)
	s.slow = make(map[*scriptRun]struct{})
	s.known = make([]script.Runs, len(native.All()))
}

// run borrows a run; give takes it back.
func (s *Server) scriptRun() *scriptRun {
	s.scripts.mu.Lock()
	defer s.scripts.mu.Unlock()
	if n := len(s.scripts.idle); n > 0 {
		r := s.scripts.idle[n-1]
		s.scripts.idle = s.scripts.idle[:n-1]
		return r
	}
	return s.newScriptRun()
}

func (s *scripts) give(r *scriptRun) {
	s.mu.Lock()
	if len(s.idle) < idleRuns && !s.closed {
		s.idle = append(s.idle, r)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	r.close()
}

// close ends what runs scripts. A Caller that Shutdown has cut off may still run
// one: that ends when it is given back.
func (s *scripts) close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	for _, r := range idle {
		r.close()
	}
}

// begin notes that a run is on a worker, end that it is not any more.
func (s *scripts) begin(r *scriptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow[r] = struct{}{}
}

func (s *scripts) end(r *scriptRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slow, r)
	r.ended.Store(nil) // it runs others on loops
}

// endAll ends the scripts on workers with an error, and reports whether there are
// any.
func (s *scripts) endAll(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.slow {
		r.ended.Store(&err)
	}
	return len(s.slow) > 0
}

// count is how many scripts are on workers.
func (s *scripts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slow)
}

// scriptStore is where the texts of scripts outlive this node: records of the
// engine, which replicate.
type scriptStore struct{ e *engine.Engine }

func (t scriptStore) Kept() bool            { return t.e.ScriptsKept() }
func (t scriptStore) Generation() uint64    { return t.e.ScriptsGone() }
func (t scriptStore) Holds(sha string) bool { return t.e.HasScript(sha) }

func (t scriptStore) Text(sha string) (body string, loaded, ok bool) {
	sc, ok := t.e.Script(sha)
	return sc.Body, sc.Loaded, ok
}

// load compiles a text and keeps it, here and on the other nodes. sess is of a
// node that decides. pause, if not nil, is called now and then.
func (s *scripts) load(sess *engine.Session, body []byte, keep bool, pause func()) (*script.Script, error) {
	sc, dropped, err := s.cache.LoadPausing(body, keep, pause)
	if len(dropped) > 0 {
		err = errors.Join(err, sess.DropScripts(dropped...))
	}
	if err != nil {
		return nil, err
	}
	return sc, s.keep(sess, sc)
}

// keep has the text of a script kept on the other nodes.
func (s *scripts) keep(sess *engine.Session, sc *script.Script) error {
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
	// strangersGone is how many texts of others make room at once, and
	// strangersSeen how many are looked at for them.
	strangersGone = 64
	strangersSeen = 1024
)

// strangers are texts that other leaders have taken, and nobody has used since
// this one leads: some of them, of those that came with SCRIPT LOAD only if none
// of the others is found. What is on the shelves here leaves room for them.
func (s *scripts) strangers(e *engine.Engine) []string {
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
