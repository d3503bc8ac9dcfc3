package policy

// condition is what `when`, `deny`, `allow` and overrides ask of a call: every
// clause has to hold. One without clauses, nil, always holds.
type condition []clause

// clause is what a condition asks of one attribute.
type clause struct {
	attr   int8
	test   test
	values *values // of isAny and isNone
}

// test is how a clause asks.
type test uint8

const (
	isAny   test = iota // one of the values
	isNone              // present, and none of the values
	present             // has a value
	absent              // has none
)

// holds reports whether the call meets the condition.
func (w condition) holds(c *Call) bool {
	for i := range w {
		if !w[i].holds(c) {
			return false
		}
	}
	return true
}

func (x *clause) holds(c *Call) bool {
	if c.present&(1<<uint(x.attr)) == 0 {
		return x.test == absent
	}
	switch x.test {
	case present:
		return true
	case absent:
		return false
	}
	return x.values.has(c, int(x.attr)) == (x.test == isAny)
}

// fails returns the first clause that does not hold, or nil.
func (w condition) fails(c *Call) *clause {
	for i := range w {
		if !w[i].holds(c) {
			return &w[i]
		}
	}
	return nil
}
