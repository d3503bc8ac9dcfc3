package engine

import (
	"encoding/binary"
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
)

const (
	// chargedFor is how long a node's number is remembered after its last batch, in ns.
	// No cluster takes that long to heal.
	chargedFor = 30 * 24 * 3600 * 1_000_000_000
	// chargedNodes bounds the nodes whose number is remembered. Beyond it, the node that
	// was charged longest ago is forgotten.
	chargedNodes = 256
)

// Charge is consumption to be charged at the leader.
type Charge struct {
	Key   []byte
	Limit algo.Limit
	Units int64
	// Initial is the value that a counter begins with if the leader does not have it.
	// Deadline is when the counter expires, engine time in ns. Known is when it expired
	// as the node found it, 0 if it was absent. All are 0 for a limit, except that a
	// calendar's Deadline is the end of the window in which the calls were admitted.
	Initial, Deadline, Known int64
}

// ChargeOnce charges a batch of the units that node has admitted while it had no leader,
// in the databases that its limits name. It does nothing if a batch of that number or a
// later one has been charged before. The charges are forced: the calls have already been
// admitted.
//
// The charges and the number, a system record, travel in one cut. So a retry after any
// failure finds both or neither. A charge that fails, because the key now holds another
// kind of state or there is no room, is skipped. lost is the number of skipped charges.
//
// Errors: ErrSealed, ErrSystemName.
func (s *Session) ChargeOnce(now int64, node string, number int64, charges []Charge) (lost int, err error) {
	if len(node) > effects.MaxSystemName {
		return 0, ErrSystemName
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	// Depose seals first and then waits for the gate. So if the engine is not sealed
	// here, Depose undoes the changes made from here on.
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

// Charged returns the number of the node's last batch that this engine has charged, 0 if
// none is known.
func (e *Engine) Charged(node string) int64 {
	e.system.mu.Lock()
	defer e.system.mu.Unlock()
	value, known := e.system.records[effects.SystemKey{Kind: effects.SystemCharged, Name: node}]
	if !known {
		return 0
	}
	return decodeCharged(value).number
}

// charge records a node's batch. It reports whether the batch must be charged: false if
// it or a later one has been. It forgets nodes that were not charged for chargedFor, and
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
