package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
)

// systemKind says what a system record is about. Kinds are part of the
// encoding of effects.
type systemKind byte

const (
	// systemCharged is the last batch that a node was charged; the record's
	// name is the node's id.
	systemCharged systemKind = 1
	// systemScript is the text of a script behind a byte that tells whether it
	// was loaded; the record's name is its SHA1 in hex. See script.go.
	systemScript systemKind = 2
	// systemPolicy is a record about policies, which its name tells: see
	// policyrecord.go.
	systemPolicy systemKind = 3
)

const (
	// systemMaxName and systemMaxValue bound the name and the value of a
	// record, in bytes.
	systemMaxName  = 255
	systemMaxValue = 1 + MaxScriptLen
)

// ErrSystemName is returned for a system record whose name is too long.
var ErrSystemName = errors.New("name of a system record is too long")

// systemKey names a system record.
type systemKey struct {
	kind systemKind
	name string
}

// system is the part of the replicated state that is not the users': records
// of bytes, by kind and name. They are cut, committed, undone, restored and
// summed up as keys are, in the same batches, but no command on keys sees them,
// and they neither count for maxmemory nor are evicted, flushed or expired:
// each kind has its own bound.
//
// Whoever changes a record holds the replica's gate shared, so that it is in
// one cut with what belongs to it.
type system struct {
	// mu guards what follows. Values are replaced, never modified.
	mu      sync.Mutex
	records map[systemKey][]byte
	// before is what the records changed since the last cut were then, nil for
	// one that did not exist; it is kept while journal is set.
	before  systemUndo
	journal bool
	// scripts and scriptBytes count the records of scripts and their bytes.
	scripts, scriptBytes int
	// policyBytes is the size of the records of policies.
	policyBytes int

	// gone counts the scripts' records that have gone, the resets included.
	gone atomic.Uint64
}

// systemUndo is what some system records were; nil for one that did not exist.
type systemUndo map[systemKey][]byte

// put makes a record value, or absent if that is nil. mu must be held.
func (s *system) put(k systemKey, value []byte) {
	if _, dirty := s.before[k]; s.journal && !dirty {
		if s.before == nil {
			s.before = make(systemUndo)
		}
		s.before[k] = s.records[k]
	}
	s.replace(k, value)
}

// replace is put without a trace. mu must be held.
func (s *system) replace(k systemKey, value []byte) {
	switch k.kind {
	case systemScript:
		s.countScript(s.records[k], value)
	case systemPolicy:
		s.policyBytes += policySize(k.name, value) - policySize(k.name, s.records[k])
	}
	if value == nil {
		delete(s.records, k)
		return
	}
	if s.records == nil {
		s.records = make(map[systemKey][]byte)
	}
	s.records[k] = value
}

// apply makes a record what a committed effect says.
func (s *system) apply(k systemKey, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(k, value)
}

// setJournal switches the journal on or off. Nothing may be dirty when it is
// switched off.
func (s *system) setJournal(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal = on
}

// cut ends a round: it calls fn with each record changed since the last one,
// nil for one that is gone, and returns what they were.
func (s *system) cut(fn func(k systemKey, value []byte)) systemUndo {
	s.mu.Lock()
	defer s.mu.Unlock()
	undo := s.before
	s.before = nil
	for k := range undo {
		fn(k, s.records[k])
	}
	return undo
}

// takeBack undoes some rounds, the oldest first, and what is dirty, and switches
// the journal off.
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

// committed calls fn with each record as it was before some rounds, the oldest
// first, and what is dirty.
func (s *system) committed(rounds []systemUndo, fn func(k systemKey, value []byte)) {
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
		// No key's bytes begin so: see Engine.Digest.
		add(sha256.Sum256(appendSystem(append(buf[:0], 0xff), k, value)))
	}
}

// appendSystem encodes a record: kind, length of the name in a byte, name, and
// the length of the value plus one, or 0 for a record that is gone, and value.
func appendSystem(b []byte, k systemKey, value []byte) []byte {
	b = append(b, byte(k.kind), byte(len(k.name)))
	b = append(b, k.name...)
	if value == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(value))+1)
	return append(b, value...)
}

// readSystem reads what appendSystem has written, in effects of a version; the
// value is a copy.
func readSystem(d *decoder) (k systemKey, value []byte) {
	k.kind = systemKind(d.byte())
	k.name = string(d.bytes(uint64(d.byte())))
	if n := d.uvarintMax(systemMaxValue + 1); n > 0 {
		value = append([]byte{}, d.bytes(n-1)...)
	}
	// A kind that the version does not know may mean anything.
	switch {
	case k.kind == systemCharged:
	case k.kind == systemScript && (value == nil || len(value) > 0):
	case k.kind == systemPolicy && (value == nil || len(value) > 0):
	default:
		d.fail()
	}
	return k, value
}
