package verdict

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/headgate-io/headgate/policy"
)

// Attribute is a name and a value that describe a caller.
type Attribute struct{ Name, Value string }

// Sync says what the answer to a call waits for.
type Sync uint8

// In this order: what the policy says; the commit; nothing, if the policy allows that.
const (
	SyncPolicy Sync = iota
	SyncCommit
	SyncNone
)

// Call is an RL.CHECK or RL.RESERVE.
type Call struct {
	Policy     string
	Attributes []Attribute
	// Cost is a number of units, if HasCost is set; otherwise the cost is 1.
	Cost    int64
	HasCost bool
	// ID names the call, so that the client can repeat it safely; "" if there is none.
	ID string
	// Peek and Force are options; RL.RESERVE has no FORCE.
	Peek, Force bool
	Sync        Sync
	// Fail is open, closed or local. "" leaves the choice to the policy.
	Fail string
	// TTL is how long the hold lasts, in the form of RL.RESERVE. "" leaves it to the
	// policy.
	TTL string
}

// Attribute returns the value of an attribute of the call; "" if it has none.
func (c *Call) Attribute(name string) string {
	for i := range c.Attributes {
		if c.Attributes[i].Name == name {
			return c.Attributes[i].Value
		}
	}
	return ""
}

// errNoPolicyName is the error of a call without a policy.
var errNoPolicyName = errors.New("policy is missing")

// AppendCheck appends the call as RL.CHECK to a pipeline of commands. It returns an error
// for an attribute's name that could be read as an option. The command finds all other
// errors.
func (c *Call) AppendCheck(dst []byte) ([]byte, error) { return c.append(dst, "RL.CHECK") }

// AppendReserve does the same as AppendCheck with RL.RESERVE.
func (c *Call) AppendReserve(dst []byte) ([]byte, error) { return c.append(dst, "RL.RESERVE") }

func (c *Call) append(dst []byte, command string) ([]byte, error) {
	if c.Policy == "" {
		return dst, errNoPolicyName
	}
	if err := CheckAttributes(c.Attributes); err != nil {
		return dst, err
	}
	n := 2 + 2*len(c.Attributes)
	for _, option := range [...]bool{c.HasCost, c.ID != "", c.Fail != "", c.TTL != ""} {
		if option {
			n += 2
		}
	}
	for _, option := range [...]bool{c.Peek, c.Force, c.Sync != SyncPolicy} {
		if option {
			n++
		}
	}
	dst = appendHeader(dst, '*', n)
	dst = appendArgument(appendArgument(dst, command), c.Policy)
	dst = appendAttributes(dst, c.Attributes)
	if c.HasCost {
		dst = appendInt(appendArgument(dst, "COST"), c.Cost)
	}
	if c.ID != "" {
		dst = appendArgument(appendArgument(dst, "ID"), c.ID)
	}
	if c.Peek {
		dst = appendArgument(dst, "PEEK")
	}
	if c.Force {
		dst = appendArgument(dst, "FORCE")
	}
	dst = appendSync(dst, c.Sync)
	if c.Fail != "" {
		dst = appendArgument(appendArgument(dst, "FAIL"), c.Fail)
	}
	if c.TTL != "" {
		dst = appendArgument(appendArgument(dst, "TTL"), c.TTL)
	}
	return dst, nil
}

// Settlement is an RL.COMMIT or RL.CANCEL.
type Settlement struct {
	Hold string
	// Attributes are the real costs of the call, by attribute. Cost, if HasCost is set, is
	// the real cost for limits whose cost is a plain number. RL.CANCEL has neither.
	Attributes []Attribute
	Cost       int64
	HasCost    bool
}

var errNoHold = errors.New("hold is missing")

// AppendCommit appends RL.COMMIT to a pipeline of commands. It returns an error for an
// attribute's name that could be read as an option.
func (s *Settlement) AppendCommit(dst []byte) ([]byte, error) {
	if s.Hold == "" {
		return dst, errNoHold
	}
	if err := CheckAttributes(s.Attributes); err != nil {
		return dst, err
	}
	n := 2 + 2*len(s.Attributes)
	if s.HasCost {
		n += 2
	}
	dst = appendArgument(appendArgument(appendHeader(dst, '*', n), "RL.COMMIT"), s.Hold)
	dst = appendAttributes(dst, s.Attributes)
	if s.HasCost {
		dst = appendInt(appendArgument(dst, "COST"), s.Cost)
	}
	return dst, nil
}

// AppendCancel appends RL.CANCEL to a pipeline of commands.
func (s *Settlement) AppendCancel(dst []byte) ([]byte, error) {
	if s.Hold == "" {
		return dst, errNoHold
	}
	return appendArgument(appendArgument(appendHeader(dst, '*', 2), "RL.CANCEL"), s.Hold), nil
}

// CheckAttributes returns an error for a name that cannot be one of an attribute.
func CheckAttributes(attributes []Attribute) error {
	if len(attributes) > policy.MaxAttributes {
		return fmt.Errorf("at most %d attributes in a call", policy.MaxAttributes)
	}
	for i := range attributes {
		if err := policy.CheckAttributeName(attributes[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func appendAttributes(dst []byte, attributes []Attribute) []byte {
	for i := range attributes {
		dst = appendArgument(appendArgument(dst, attributes[i].Name), attributes[i].Value)
	}
	return dst
}

func appendSync(dst []byte, s Sync) []byte {
	switch s {
	case SyncCommit:
		return appendArgument(dst, "SYNC")
	case SyncNone:
		return appendArgument(dst, "ASYNC")
	}
	return dst
}

func appendHeader(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}

func appendArgument(dst []byte, s string) []byte {
	return append(append(appendHeader(dst, '$', len(s)), s...), "\r\n"...)
}

func appendInt(dst []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	return append(append(appendHeader(dst, '$', len(text)), text...), "\r\n"...)
}
