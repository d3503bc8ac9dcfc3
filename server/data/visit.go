package data

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

// visit begins a visit to the collection that a key holds. If that fails, it replies an
// error and returns nil.
func visit(call *command.Call, key []byte, kind algo.Algorithm) *engine.Value {
	v, err := call.Sess.Open(call.Now, key, kind)
	if err != nil {
		call.Fail(err)
		return nil
	}
	return v
}

// isolate makes the visits that follow one step, for a command on several keys.
func isolate(call *command.Call, keys [][]byte) engine.Step {
	return call.Sess.Isolate(call.Now, keys, 0)
}

// moving returns the work, in entries, to add or remove members of a sorted set of size
// bytes. Each member moves up to half of the set's order.
func moving(members, size int) int { return members * (1 + size>>14) }

// ofMany returns the handler of a command that takes any number of entries as arguments.
func ofMany(handler command.Handler) command.Handler {
	return func(call *command.Call) {
		if call.Long(len(call.Args)) {
			call.Leave()
			return
		}
		handler(call)
	}
}

// reading is a visit that does not change the value.
type reading struct {
	packed.Buffer
	v *engine.Value // nil after the visit
}

// whole returns the work, in entries, to walk over all of a value.
func whole(value []byte) int { return packed.Len(value) + len(value)/command.BytesOfEntry }

// read begins a visit that reads all of a collection. ok is false if read has replied an
// error, or if the call now runs on a worker. On a worker, read reads a copy, so other
// calls need not wait.
func read(call *command.Call, key []byte, kind algo.Algorithm) (r reading, ok bool) {
	return readSome(call, key, kind, whole)
}

// readSome does the same as read for a part of a collection. passes returns the work in
// entries.
func readSome(call *command.Call, key []byte, kind algo.Algorithm, passes func(value []byte) int) (r reading, ok bool) {
	v := visit(call, key, kind)
	if v == nil {
		return reading{}, false
	}
	if call.Long(passes(v.Bytes())) {
		v.Close()
		call.Leave()
		return reading{}, false
	}
	if call.OnWorker {
		r.Buffer = newScratch(v.Bytes())
		v.Close()
		return r, true
	}
	return reading{v, v}, true
}

// close ends the visit, if it has not ended.
func (r *reading) close() {
	if r.v != nil {
		r.v.Close()
		r.v = nil
	}
}

// scratch is a packed.Buffer outside the table: a copy of a value. The copy changes in
// several steps, and is then stored in one step.
type scratch struct{ b []byte }

func newScratch(value []byte) *scratch { return &scratch{append([]byte(nil), value...)} }

func (s *scratch) Bytes() []byte { return s.b }

func (s *scratch) Edit() []byte { return s.b }

func (s *scratch) Splice(at, del, ins int) ([]byte, error) {
	tail := s.b[at+del:]
	n := len(s.b) - del + ins
	b := s.b
	if n <= cap(b) {
		b = b[:n]
	} else {
		b = make([]byte, n, n+n/4)
		copy(b, s.b[:at])
	}
	copy(b[at+ins:], tail)
	s.b = b
	return b, nil
}
