package engine

import (
	"encoding/binary"
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

const (
	// chargedFor is how long a node's number is remembered after its last
	// batch, ns: far longer than a cluster heals.
	chargedFor = 30 * 24 * 3600 * 1_000_000_000
	// chargedNodes bounds the nodes whose number is remembered; of more, the one
	// that was charged the longest ago is forgotten.
	chargedNodes = 256
)

// Charge is consumption to be charged at the leader.
type Charge struct {
	Key   []byte
	Limit algo.Limit
	Units int64
	// Initial is what a counter that the leader does not have begins with,
	// Deadline is when it expires, engine time in ns, and Known when it expired
	// as the node found it, 0 for one that was not there. All are 0 for a limit, but
	// that of a calendar has the end of the window that it was admitted in.
	Initial, Deadline, Known int64
}

// ChargeOnce charges a batch of what node has admitted while it had no leader,
// in the databases that its limits name, unless a batch of that number or a
// later one has been charged before. The charges are forced: what was admitted is
// a fact. They and the number, a system record, travel in one cut, so that a
// retry after any failure finds either both or neither. Charges that cannot be
// made, since a key holds another kind of state by now or there is no room, are
// passed over; lost is how many.
// Errors: ErrSealed, ErrSystemName.
func (s *Session) ChargeOnce(now int64, node string, number int64, charges []Charge) (lost int, err error) {
	if len(node) > effects.MaxSystemName {
		return 0, ErrSystemName
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	// Depose seals first and waits for the gate then: what an engine that is
	// not sealed here does behind this line is undone.
	if s.e.sealed.Load() {
		return 0, ErrSealed
	}
	// The number first: what fails after it is lost, not charged twice.
	if !s.e.system.charge(now, node, number) {
		return 0, nil
	}
	defer s.Use(s.db)
	for _, c := range charges {
		s.Use(c.Limit.DB)
		var err error
		switch {
		case c.Limit.Algorithm == algo.Counter:
			err = s.chargeCounter(now, &c)
		case c.Limit.Algorithm.IsPolicy():
			err = s.chargePolicy(now, &c)
		default:
			_, err = s.Decide(now, c.Key, c.Limit, c.Units, &algo.Options{Force: true})
		}
		if errors.Is(err, ErrSealed) {
			return 0, err
		}
		if err != nil {
			lost++
		}
	}
	return lost, nil
}

// charged is the record of a node's last batch.
type charged struct {
	number int64
	at     int64 // engine time
}

func (c charged) encode() []byte {
	return binary.AppendVarint(binary.AppendVarint(nil, c.number), c.at)
}

func decodeCharged(b []byte) (c charged) {
	d := effects.Decoder{B: b}
	c.number, c.at = d.Varint(), d.Varint()
	return c
}

// Charged returns the number of the node's last batch that this engine's state
// has been charged, 0 if none is known.
func (e *Engine) Charged(node string) int64 {
	e.system.mu.Lock()
	defer e.system.mu.Unlock()
	value, known := e.system.records[effects.SystemKey{Kind: effects.SystemCharged, Name: node}]
	if !known {
		return 0
	}
	return decodeCharged(value).number
}

// charge notes a node's batch, and reports whether it is to be charged: false
// if it or a later one has been. It forgets the numbers of nodes that have not
// been charged for chargedFor, or are too many.
func (s *system) charge(now int64, node string, number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := effects.SystemKey{Kind: effects.SystemCharged, Name: node}
	if value, known := s.records[own]; known && decodeCharged(value).number >= number {
		return false
	}
	others := 0
	var oldest effects.SystemKey
	var oldestAt int64
	for k, value := range s.records {
		if k.Kind != effects.SystemCharged || k == own {
			continue
		}
		at := decodeCharged(value).at
		if at < now-chargedFor {
			s.put(k, nil)
			continue
		}
		if others++; others == 1 || at < oldestAt {
			oldest, oldestAt = k, at
		}
	}
	if others >= chargedNodes {
		s.put(oldest, nil)
	}
	s.put(own, charged{number, now}.encode())
	return true
}
