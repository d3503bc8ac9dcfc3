package wire

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// LeaseTTL is the time to live of a lease that names none, in ns.
const LeaseTTL = 2_000_000_000

// Errors of the arguments of leases.
var (
	ErrLeaseNeeds  = errors.New("ERR RL.LEASE needs ID, SEQ and WANT")
	ErrReturnNeeds = errors.New("ERR RL.RETURN needs ID, SEQ and HELD")
	errSeq         = errors.New("ERR SEQ must be an integer from 1 to 18446744073709551615")
	errUnits       = errors.New("ERR WANT, HELD and NEED must be integers, 0 or more")
)

// LeaseArgs are the arguments of RL.LEASE and RL.RETURN that say nothing about the limit.
type LeaseArgs struct {
	ID []byte
	algo.Request
	wants, holds bool
}

// NewLeaseArgs returns what applies if nothing is said.
func NewLeaseArgs() LeaseArgs {
	return LeaseArgs{Request: algo.Request{Need: 1, TTL: LeaseTTL}}
}

// leaseWords are the options of leases.
var leaseWords = [...]string{"id", "seq", "want", "held", "need", "ttl"}

// Option reads an option, and reports whether the word is one. Each has an argument.
func (a *LeaseArgs) Option(args [][]byte) (is bool, err error) {
	at := 0
	for at < len(leaseWords) && !command.EqualFold(args[0], leaseWords[at]) {
		at++
	}
	switch {
	case at == len(leaseWords):
		return false, nil
	case len(args) < 2:
		return true, command.ErrSyntax
	}
	value := args[1]
	switch leaseWords[at] {
	case "id":
		a.ID = value
	case "seq":
		a.Seq, err = parseSeq(value)
	case "want":
		a.wants = true
		a.Want, err = parseUnits(value)
	case "held":
		a.holds = true
		a.Held, err = parseUnits(value)
	case "need":
		a.Need, err = parseUnits(value)
	case "ttl":
		a.TTL, err = ParsePeriod(value)
	}
	return true, err
}

// Lends returns an error if a required argument of RL.LEASE is missing.
func (a *LeaseArgs) Lends() error {
	if len(a.ID) == 0 || a.Seq == 0 || !a.wants {
		return ErrLeaseNeeds
	}
	return nil
}

// Returns is Lends for RL.RETURN.
func (a *LeaseArgs) Returns() error {
	if len(a.ID) == 0 || a.Seq == 0 || !a.holds {
		return ErrReturnNeeds
	}
	return nil
}

func parseSeq(b []byte) (uint64, error) {
	if n, ok := resp.ParseInt(b); ok && n > 0 {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || n == 0 {
		return 0, errSeq
	}
	return n, nil
}

func parseUnits(b []byte) (int64, error) {
	n, err := ParseInteger(b)
	if err != nil || n < 0 {
		return 0, errUnits
	}
	return n, nil
}

// UnknownOption returns the error for a word that is no option.
func UnknownOption(word []byte) error {
	return fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(word, command.ErrorClip))
}

// leaseFields is the number of fields of RL.LEASE's reply.
const leaseFields = DecisionFields + 5

// WriteLease replies the values of RL.LIMIT for NEED, then granted, ttl_ms, refill,
// refill_ms and holders.
func WriteLease(call *command.Call, a *engine.Leased) {
	OpenDecision(call, leaseFields)
	WriteDecision(call.W, &a.Decision, a.Delay, false)
	IntField(call.W, "granted", a.Granted)
	// A holder's time is never longer than the server's, and its refill never faster.
	IntField(call.W, "ttl_ms", a.TTL/1e6)
	IntField(call.W, "refill", a.Refill)
	IntField(call.W, "refill_ms", command.CeilMillis(a.RefillTime))
	IntField(call.W, "holders", a.Holders)
	CloseDecision(call)
}

// OfReturn reports whether an option of leases is one of RL.RETURN.
func OfReturn(word []byte) bool {
	return command.EqualFold(word, "id") || command.EqualFold(word, "seq") || command.EqualFold(word, "held")
}
