package engine

import (
	"errors"

	"github.com/headgate-io/headgate/engine/effects"
)

// Bounds of the records of scripts.
const (
	// MaxScriptLen is the longest text of a script, in bytes.
	MaxScriptLen = effects.MaxSystemValue - 1
	// MaxScripts and MaxScriptBytes bound the number of texts and their total length.
	MaxScripts     = 10_000
	MaxScriptBytes = 64 << 20
)

// ErrScriptsFull is returned if there is no room for the text of another script.
var ErrScriptsFull = errors.New("too many scripts are loaded: SCRIPT FLUSH makes room")

// Script is the text of a script that clients have sent. It is kept for the node that
// leads next.
type Script struct {
	Body string
	// Loaded is set if a client asked to keep the script (SCRIPT LOAD). When there is no
	// room, other scripts are dropped first.
	Loaded bool
}

// PutScript keeps the text of a script under its SHA1 in lower-case hex, in the
// replicated state, so that a later leader has it. On an engine without replication it
// does nothing. Errors: ErrSealed, ErrScriptsFull.
func (s *Session) PutScript(sha string, sc Script) error {
	if !s.e.ScriptsKept() {
		return nil
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	if s.e.sealed.Load() {
		return ErrSealed
	}
	value := make([]byte, 1, 1+len(sc.Body))
	if sc.Loaded {
		value[0] = 1
	}
	return s.e.system.putScript(sha, append(value, sc.Body...))
}

// DropScripts forgets the texts with these SHA1s, or all texts if none is given. Errors:
// ErrSealed.
func (s *Session) DropScripts(shas ...string) error {
	if s.e.replica == nil {
		return nil
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	if s.e.sealed.Load() {
		return ErrSealed
	}
	s.e.system.dropScripts(shas)
	return nil
}

// Script returns the text kept under a SHA1 in lower-case hex.
func (e *Engine) Script(sha string) (Script, bool) {
	s := &e.system
	s.mu.Lock()
	value := s.records[effects.SystemKey{Kind: effects.SystemScript, Name: sha}]
	s.mu.Unlock()
	if value == nil {
		return Script{}, false
	}
	return Script{string(value[1:]), value[0] == 1}, true
}

// HasScript reports whether a text is kept under a SHA1 in lower-case hex.
func (e *Engine) HasScript(sha string) bool {
	s := &e.system
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[effects.SystemKey{Kind: effects.SystemScript, Name: sha}] != nil
}

// Scripts calls fn with the SHA1 of each kept text, and whether it was loaded, in no
// order, until fn returns false. fn must not call the engine.
func (e *Engine) Scripts(fn func(sha string, loaded bool) bool) {
	s := &e.system
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, value := range s.records {
		if k.Kind == effects.SystemScript && !fn(k.Name, value[0] == 1) {
			return
		}
	}
}

// ScriptsKept reports whether this engine keeps texts: only a replica does.
func (e *Engine) ScriptsKept() bool { return e.replica != nil }

// ScriptsGone returns a number that changes whenever a text may have been dropped or
// undone.
func (e *Engine) ScriptsGone() uint64 { return e.system.gone.Load() }

// putScript stores the record of a script, if it fits.
func (s *system) putScript(sha string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := effects.SystemKey{Kind: effects.SystemScript, Name: sha}
	old, known := s.records[k]
	if !known && s.scripts == MaxScripts || s.scriptBytes-len(old)+len(value) > MaxScriptBytes {
		return ErrScriptsFull
	}
	s.put(k, value)
	return nil
}

func (s *system) dropScripts(shas []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(shas) == 0 {
		for k := range s.records {
			if k.Kind == effects.SystemScript {
				s.put(k, nil)
			}
		}
	}
	for _, sha := range shas {
		if k := (effects.SystemKey{Kind: effects.SystemScript, Name: sha}); s.records[k] != nil {
			s.put(k, nil)
		}
	}
}

// countScript updates the counts for a change of a script's record. mu must be held.
func (s *system) countScript(old, value []byte) {
	if old != nil {
		s.scripts--
		s.scriptBytes -= len(old)
	}
	if value != nil {
		s.scripts++
		s.scriptBytes += len(value)
	} else {
		s.gone.Add(1)
	}
}
