package web

import (
	"errors"

	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// # Limits in the call
//
// A call may bring its own limits instead of naming a policy, as in RL.LIMIT.

var limitFields = []string{"key", "limit", "period", "algorithm", "align", "burst", "cost"}

var (
	errOfLimits = errors.New("wait_ms and debt need limits in the call")
	errOfPolicy = errors.New("a call with limits cannot have policy, attributes, id or cost: each limit has its own cost")
	errLimits   = errors.New("at least one limit is required")
)

// readChain reads a field of a call that brings its own limits.
func readChain(r *jsonReader, field string, c *verdict.LimitCall) (err error) {
	switch field {
	case "limits":
		err = r.array(func() error {
			var l verdict.Asked
			err := r.object(limitFields, func(field int) error { return readLimit(r, limitFields[field], &l) })
			c.Limits = append(c.Limits, l)
			return err
		})
		if err == nil && len(c.Limits) == 0 {
			err = errLimits
		}
	case "wait_ms":
		c.HasWait = true
		c.Wait, err = r.number()
	case "debt":
		c.HasDebt = true
		c.Debt, err = r.number()
	}
	return err
}

// readLimit reads a field of one limit. A period is a text, or a number of seconds.
func readLimit(r *jsonReader, field string, l *verdict.Asked) (err error) {
	switch field {
	case "key":
		l.Key, err = r.text()
	case "limit":
		l.Limit, err = r.number()
	case "period":
		l.Period, err = r.period()
	case "algorithm":
		l.Algorithm, err = r.text()
	case "align":
		l.Align, err = r.text()
	case "burst":
		l.HasBurst = true
		l.Burst, err = r.number()
	case "cost":
		l.HasCost = true
		l.Cost, err = r.number()
	}
	return err
}

// limit answers a call that brings its own limits.
func (a *api) limit(x *exchange) *problem {
	c := &x.check
	if c.Policy != "" || len(c.Attributes) > 0 || c.HasCost || c.ID != "" {
		return badRequest(errOfPolicy)
	}
	c.chain.Peek, c.chain.Force, c.chain.Sync, c.chain.Fail = c.Peek, c.Force, c.Sync, c.Fail
	var err error
	if x.commands, err = c.chain.AppendLimit(x.commands[:0]); err != nil {
		return badRequest(err)
	}
	if p := a.run(x, x.commands); p != nil {
		return p
	}
	if _, err := x.verdict.ReadLimits(x.replies, &c.chain); err != nil {
		return problemOf(err)
	}
	x.result = fronts.Of(x.verdict.Allowed)
	return x.answer((&verdict.Call{Policy: c.chain.Limits[0].Key}).Key())
}
