package policy

// condition is the requirement of `when`, `deny`, `allow` or an override: every clause
// must hold. A nil condition always holds.
type condition []clause

// clause is the requirement for one attribute.
type clause struct {
	attr   int8
	test   Test
	values *values // of isAny and isNone
}

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
		return x.test == Absent
	}
	switch x.test {
	case Present:
		return true
	case Absent:
		return false
	}
	return x.values.has(c, int(x.attr)) == (x.test == IsAny)
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
