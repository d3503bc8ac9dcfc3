package checks

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/server/command"
)

// explainHold is RL.EXPLAIN HOLD. It shows the hold and what each limit was charged. It
// changes nothing.
func (c *Checker) explainHold(call *command.Call, id []byte) {
	key := holdKey(id)
	r, err := call.Sess.Reservation(call.Now, key)
	switch {
	case errors.Is(err, engine.ErrNoHold):
		c.noHold(call, id)
		return
	case err != nil:
		call.Fail(err)
		return
	}
	out := command.NewPairs(call.W)
	out.Str("hold", string(id))
	out.Str("key", string(key))
	out.Str("state", r.State.String())
	out.Str("expiry", expiryWord(&r))
	if r.State == reservation.Open {
		out.Int("ends_ms", max(command.CeilMillis(r.Ends-call.Now), 0))
	}
	out.Int("version", int64(r.Version))
	out.Int("applied", int64(r.Applied))
	w := out.List("limits", len(r.Limits))
	for i := range r.Limits {
		l := &r.Limits[i]
		line := command.NewPairs(w)
		line.Str("name", l.Name)
		line.Str("key", string(l.Key))
		line.Int("cost", l.Cost)
		if l.CostBy != "" {
			line.Str("cost_by", l.CostBy)
		}
		line.Flush()
	}
	out.Flush()
}

// expiryWord says what happens to a hold that expires.
func expiryWord(r *reservation.Record) string {
	if r.Charges {
		return "charge"
	}
	return "release"
}
