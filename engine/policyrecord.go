package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// Bounds of the records of policies.
const (
	// MaxPolicyRecord bounds the value of one record, in bytes.
	MaxPolicyRecord = effects.MaxSystemValue
	// MaxPolicyBytes bounds all records together, in bytes, including their names.
	MaxPolicyBytes = 256 << 20
)

// ErrPoliciesFull is returned if the records of policies would exceed MaxPolicyBytes.
var ErrPoliciesFull = errors.New("policies take too much memory: delete some")

// PolicyRecord is a record about policies, which the engine replicates and does not
// interpret. A nil value means no record.
type PolicyRecord struct {
	Name  string // at most 255 bytes
	Value []byte // never modified
}

// policies publishes the committed records of policies.
type policies struct {
	// mu guards the fields below, and is held while watch is called: one call at a time,
	// in the order of the log.
	mu    sync.Mutex
	watch func(changes []PolicyRecord, anew bool)
	// void is the function of VoidCounters, nil if none.
	void atomic.Pointer[func(key []byte, resets uint16) bool]
	// editing makes edit and publication one step on an engine without replication.
	editing sync.Mutex
}

// WatchPolicies registers fn for committed records of policies. On every node, fn is
// called at once with all records, and then with each change, in the order of the log.
// anew is set if changes has all records that exist. fn must not block or call the
// engine.
func (e *Engine) WatchPolicies(fn func(changes []PolicyRecord, anew bool)) {
	e.policies.editing.Lock()
	defer e.policies.editing.Unlock()
	e.policies.mu.Lock()
	defer e.policies.mu.Unlock()
	e.policies.watch = fn
	fn(e.committedPolicies(), true)
}

// VoidCounters registers fn, which reports whether an edit has voided the use in a
// policy's counter. resets is Limit.Resets of the limit under which the counter was
// charged. Until the counter is charged again or expires, a void counter is absent, except
// in counts over the whole table. fn must not call the engine, except for Ready and
// Release.
func (e *Engine) VoidCounters(fn func(key []byte, resets uint16) bool) { e.policies.void.Store(&fn) }

// void reports whether an entry is a policy's counter that an edit has voided.
func (e *Engine) void(ent shard.Entry) bool {
	l := &e.limits.get(ent.Meta()).Limit
	if !l.Algorithm.IsPolicy() {
		return false
	}
	fn := e.policies.void.Load()
	return fn != nil && (*fn)(ent.Key(), l.Resets)
}

// committedPolicies returns the committed records of policies.
func (e *Engine) committedPolicies() (all []PolicyRecord) {
	take := func(k effects.SystemKey, value []byte) {
		if k.Kind == effects.SystemPolicy {
			all = append(all, PolicyRecord{k.Name, value})
		}
	}
	if e.replica == nil {
		e.system.committed(nil, take)
	} else {
		e.replica.eachCommitted(take)
	}
	return all
}

// publish passes committed changes to the registered function.
func (e *Engine) publish(changes []PolicyRecord, anew bool) {
	if len(changes) == 0 && !anew {
		return
	}
	e.policies.mu.Lock()
	defer e.policies.mu.Unlock()
	if e.policies.watch != nil {
		e.policies.watch(changes, anew)
	}
}

// EditPolicies changes records of policies, as one change. edit reads the present
// records, including uncommitted changes, and returns the changes. It must not call the
// engine. If edit returns an error, EditPolicies returns it and changes nothing. Other
// errors: ErrSealed, ErrSystemName, ErrPoliciesFull.
func (s *Session) EditPolicies(edit func(get func(name string) []byte) ([]PolicyRecord, error)) error {
	e := s.e
	if e.replica == nil {
		e.policies.editing.Lock()
		defer e.policies.editing.Unlock()
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	if e.sealed.Load() {
		return ErrSealed
	}
	changes, err := e.system.editPolicies(edit)
	if err != nil {
		return err
	}
	if e.replica == nil {
		e.publish(changes, false)
	}
	return nil
}

// editPolicies is Session.EditPolicies without seal, gate and publication.
func (s *system) editPolicies(edit func(get func(name string) []byte) ([]PolicyRecord, error)) ([]PolicyRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := edit(func(name string) []byte { return s.records[effects.SystemKey{Kind: effects.SystemPolicy, Name: name}] })
	if err != nil {
		return nil, err
	}
	size := s.policyBytes
	for _, c := range changes {
		if len(c.Name) > effects.MaxSystemName {
			return nil, ErrSystemName
		}
		size += policySize(c.Name, c.Value) - policySize(c.Name, s.records[effects.SystemKey{Kind: effects.SystemPolicy, Name: c.Name}])
		if len(c.Value) > MaxPolicyRecord {
			return nil, ErrPoliciesFull
		}
	}
	if size > max(MaxPolicyBytes, s.policyBytes) { // an edit that makes it smaller always passes
		return nil, ErrPoliciesFull
	}
	for _, c := range changes {
		s.put(effects.SystemKey{Kind: effects.SystemPolicy, Name: c.Name}, c.Value)
	}
	return changes, nil
}

// policySize returns how many of MaxPolicyBytes a record takes.
func policySize(name string, value []byte) int {
	if value == nil {
		return 0
	}
	return len(name) + len(value)
}

// PolicyRecord returns the value of a record of policies, including uncommitted changes,
// or nil.
func (e *Engine) PolicyRecord(name string) []byte {
	e.system.mu.Lock()
	defer e.system.mu.Unlock()
	return e.system.records[effects.SystemKey{Kind: effects.SystemPolicy, Name: name}]
}
