package engine

import (
	"encoding/binary"
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

const (
	// chargedFor is how long, in ns, the number of a node's last batch is remembered. A
	// cluster heals sooner.
	chargedFor = 30 * 24 * 3600 * 1_000_000_000
	// chargedNodes bounds the nodes whose number is remembered. Beyond it, the node
	// charged longest ago is forgotten.
	chargedNodes = 256
)

// Charge is consumption to be charged at the leader.
type Charge struct {
	Key   []byte
	Limit algo.Limit
	Units int64
	// For a counter, Initial is the value with which the counter begins if the leader
	// does not have it. Deadline is when the counter expires, engine time in ns. Known is
	// the deadline that the counter had when the node copied it; 0 if the counter did not
	// exist then. For a limit, all three fields are 0. Exception: for a calendar,
	// Deadline is the end of the window in which the calls were admitted.
	Initial, Deadline, Known int64
}

// ChargeOnce charges a batch of units that node has admitted without a leader. Each
// limit names its database. If this batch or a later batch of the node has been charged
// before, ChargeOnce does nothing. The charges are forced, because the calls have
// already been admitted.
//
// The charges and the batch's number, a system record, are replicated together. So a
// retry after any failure finds both or neither. A charge is skipped if the key now
// holds another kind of state, or if there is no room. lost is the number of skipped
// charges.
//
// Errors: ErrSealed, ErrSystemName.
func (s *Session) ChargeOnce(now int64, node string, number int64, charges []Charge) (lost int, err error) {
	if len(node) > effects.MaxSystemName {
		return 0, ErrSystemName
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	// Depose seals first and then waits for the gate. So if the engine is not sealed
	// here, Depose will undo all changes below.
	if s.e.sealed.Load() {
		return 0, ErrSealed
	}
	// Record the number first: a charge that fails after it is lost, not repeated.
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

// charged is the record of a node's last batch. Its batches are charged in order, so one
// number is enough.
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

// Charged returns the number of the last batch of node that was charged, 0 if none is
// known.
func (e *Engine) Charged(node string) int64 {
	e.system.mu.Lock()
	defer e.system.mu.Unlock()
	value, known := e.system.records[effects.SystemKey{Kind: effects.SystemCharged, Name: node}]
	if !known {
		return 0
	}
	return decodeCharged(value).number
}

// charge records a node's batch, and reports whether to charge it: false if it or a later
// one was charged before. It forgets nodes that were not charged for chargedFor, and
// those beyond chargedNodes.
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
