package partition

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
)

// RL.CHARGE begins with chargeHead arguments: its name, the node, a number. Then
// chargeFields arguments describe each charge: key, algorithm, rounding, align, limit,
// period in ns, burst, units, initial value, deadline in ns. The number of the align
// contains the database, from bit chargeDB on.
//
// Some fields have another meaning for some kinds:
//
//   - A counter (such as INCR's) has a deadline. Its units and value may be negative.
//     Its field period holds a time: when the counter had expired at the moment the node
//     copied it.
//   - A policy's limit has its resets and scalings instead of initial value and deadline.
//   - A calendar's period is the end of the window in which the calls were admitted.
//
// If all charges are about limits, the last two fields may be left out of every charge.
// If they are present, a plus sign stands before the number.
const (
	chargeHead   = 3
	chargeFields = 10
	limitFields  = 8 // without a counter's
	chargeDB     = 4
	chargePeriod = 4 // the places of the period and of the units after the key
	chargeUnits  = 6
)

var errCharge = errors.New("charges are malformed")

// chargeCommand is RL.CHARGE node number charge [charge ...].
func chargeCommand(node string, number int64, charges []engine.Charge) [][]byte {
	var counters []byte
	fields := limitFields
	if slices.ContainsFunc(charges, func(c engine.Charge) bool { return c.Limit.Algorithm == algo.Counter || c.Limit.Algorithm.IsPolicy() }) {
		counters, fields = []byte("+"), chargeFields
	}
	args := [][]byte{[]byte("RL.CHARGE"), []byte(node), strconv.AppendInt(counters, number, 10)}
	for _, c := range charges {
		args = append(args, c.Key)
		end := c.Deadline
		if c.Limit.Algorithm.IsPolicy() {
			c.Initial, c.Deadline = int64(c.Limit.Resets), int64(c.Limit.Scalings)
		}
		all := [...]int64{int64(c.Limit.Algorithm), int64(c.Limit.Rounding), int64(c.Limit.Align) | int64(c.Limit.DB)<<chargeDB,
			c.Limit.Limit, c.Limit.Period, c.Limit.Burst, c.Units, c.Initial, c.Deadline}
		switch c.Limit.Algorithm {
		case algo.Counter:
			all[chargePeriod] = c.Known
		case algo.PolicyCalendar:
			all[chargePeriod] = end
		}
		for _, n := range all[:fields-1] {
			args = append(args, strconv.AppendInt(nil, n, 10))
		}
	}
	return args
}

// ParseCharges reads the arguments of RL.CHARGE, beginning with its name. The keys are
// views of the arguments. Errors of algo.Limit.Validate are possible too.
func ParseCharges(args [][]byte) (node string, number int64, charges []engine.Charge, err error) {
	if len(args) < chargeHead {
		return "", 0, nil, errCharge
	}
	digits, counters := bytes.CutPrefix(args[2], []byte("+"))
	fields := limitFields
	if counters {
		fields = chargeFields
	}
	number, ok := resp.ParseInt(digits)
	if !ok || len(args[chargeHead:])%fields != 0 {
		return "", 0, nil, errCharge
	}
	for rest := args[chargeHead:]; len(rest) > 0; rest = rest[fields:] {
		var n [chargeFields - 1]int64
		for i := range n[:fields-1] {
			if n[i], ok = resp.ParseInt(rest[1+i]); !ok || n[i] < 0 && (i != chargeUnits && i != chargeUnits+1 || n[0] != int64(algo.Counter)) || i < 3 && n[i] > 255 {
				return "", 0, nil, errCharge
			}
		}
		known, end := int64(0), int64(0)
		switch algo.Algorithm(n[0]) {
		case algo.Counter:
			known, n[chargePeriod] = n[chargePeriod], 0
		case algo.PolicyCalendar:
			end, n[chargePeriod] = n[chargePeriod], 0
		}
		l := algo.Limit{Algorithm: algo.Algorithm(n[0]), Rounding: algo.Rounding(n[1]), Align: algo.Align(n[2] & (1<<chargeDB - 1)),
			DB: uint8(n[2] >> chargeDB), Limit: n[3], Period: n[chargePeriod], Burst: n[5]}
		if (l.Algorithm == algo.Counter || l.Algorithm.IsPolicy()) && !counters {
			return "", 0, nil, errCharge
		}
		if l.Algorithm.IsPolicy() {
			if max(n[chargeUnits+1], n[chargeUnits+2]) > math.MaxUint16 {
				return "", 0, nil, errCharge
			}
			l.Resets, l.Scalings = uint16(n[chargeUnits+1]), uint16(n[chargeUnits+2])
			n[chargeUnits+1], n[chargeUnits+2] = 0, end
		}
		if err := l.Validate(); err != nil {
			return "", 0, nil, err
		}
		charges = append(charges, engine.Charge{Key: rest[0], Limit: l, Units: n[chargeUnits], Initial: n[chargeUnits+1], Deadline: n[chargeUnits+2], Known: known})
	}
	return string(args[1]), number, charges, nil
}

// ChargeOnce charges, with sess, the calls that node has admitted without a leader. It logs
// how much is lost.
func (p *Partition) ChargeOnce(sess *engine.Session, now int64, node string, number int64, charges []engine.Charge) error {
	lost, err := sess.ChargeOnce(now, node, number, charges)
	if lost > 0 {
		p.cfg.Logger.Warn("not everything admitted without a leader could be charged", "node", node, "charges", len(charges), "lost", lost)
	}
	return err
}
