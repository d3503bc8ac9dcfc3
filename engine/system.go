package engine

import (
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/effects"
)

// ErrSystemName is returned for a system record whose name is too long.
var ErrSystemName = errors.New("name of a system record is too long")

// system is replicated state that is not data of users: records of bytes, by kind and
// name. System records travel in the same batches as keys, and are undone and restored
// with them. Commands on keys do not see system records. They do not count towards
// maxmemory, and they are not evicted, flushed or expired: each kind of system record
// has its own bound.
//
// Code that changes a record holds the replica's gate in shared mode. So the change is
// in the same cut as the keys that belong to it.
type system struct {
	// mu guards the fields below. Values are replaced, never modified.
	mu      sync.Mutex
	records map[effects.SystemKey][]byte
	// before holds the values that changed records had at the last cut, nil if absent. It
	// is kept while journal is set.
	before  systemUndo
	journal bool
	// scripts and scriptBytes count the records of scripts and their bytes.
	scripts, scriptBytes int
	// policyBytes is the total size of the records of policies.
	policyBytes int

	// gone counts the records of scripts that were removed, also by resets.
	gone atomic.Uint64
}

// systemUndo holds earlier values of system records, nil if absent.
type systemUndo map[effects.SystemKey][]byte

// put sets a record to value, or deletes it if that is nil. mu must be held.
func (s *system) put(k effects.SystemKey, value []byte) {
	if _, dirty := s.before[k]; s.journal && !dirty {
		if s.before == nil {
			s.before = make(systemUndo)
		}
		s.before[k] = s.records[k]
	}
	s.replace(k, value)
}

// replace is put without a journal entry. mu must be held.
func (s *system) replace(k effects.SystemKey, value []byte) {
	switch k.Kind {
	case effects.SystemScript:
		s.countScript(s.records[k], value)
	case effects.SystemPolicy:
		s.policyBytes += policySize(k.Name, value) - policySize(k.Name, s.records[k])
	}
	if value == nil {
		delete(s.records, k)
		return
	}
	if s.records == nil {
		s.records = make(map[effects.SystemKey][]byte)
	}
	s.records[k] = value
}

// apply sets a record as a committed effect says.
func (s *system) apply(k effects.SystemKey, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(k, value)
}

// setJournal switches the journal on or off. Nothing may be dirty when it is switched
// off.
func (s *system) setJournal(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal = on
}

// cut ends a round. It calls fn with each record changed since the last cut, nil for a
// deleted one, and returns the earlier values.
func (s *system) cut(fn func(k effects.SystemKey, value []byte)) systemUndo {
	s.mu.Lock()
	defer s.mu.Unlock()
	undo := s.before
	s.before = nil
	for k := range undo {
		fn(k, s.records[k])
	}
	return undo
}

// takeBack undoes some rounds, given oldest first, and the changes since the last cut. It
// switches the journal off.
func (s *system) takeBack(rounds []systemUndo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rounds = append(rounds, s.before)
	for i := len(rounds) - 1; i >= 0; i-- {
		for k, value := range rounds[i] {
			s.replace(k, value)
		}
	}
	s.before, s.journal = nil, false
}

// committed calls fn with each record as it was before some rounds, given oldest first,
// and without changes since the last cut.
func (s *system) committed(rounds []systemUndo, fn func(k effects.SystemKey, value []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := make(systemUndo)
	for _, round := range append(rounds, s.before) {
		for k, value := range round {
			if _, older := old[k]; !older {
				old[k] = value
			}
		}
	}
	for k, value := range s.records {
		if _, changed := old[k]; !changed {
			fn(k, value)
		}
	}
	for k, value := range old {
		if value != nil {
			fn(k, value)
		}
	}
}

// reset forgets all records.
func (s *system) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.records)
	s.scripts, s.scriptBytes, s.policyBytes = 0, 0, 0
	s.gone.Add(1)
}

// digest calls add with the hash of each record.
func (s *system) digest(add func([sha256.Size]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var buf []byte
	for k, value := range s.records {
		// The bytes of a key never begin with 0xff: see Engine.Digest.
		add(sha256.Sum256(effects.AppendSystem(append(buf[:0], 0xff), k, value)))
	}
}
