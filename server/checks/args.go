package checks

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// checkArgs are the parsed options of RL.CHECK.
type checkArgs struct {
	pairs [][]byte // names and values, alternating
	units int64
	peek  bool
	force bool
	sync  command.SyncMode
	fail  policy.Failure
	// holds reports that the call is RL.RESERVE. ttl is the hold's, in ns, 0 for the
	// policy's. names reports that the call may have the option ID; id is its argument, nil
	// for none.
	holds, names bool
	ttl          int64
	id           []byte
	given        checkOption // the options that were given
	// printed reports that a secret may be given as its printed form.
	printed bool
	// lease has the options of RL.LEASE and RL.RETURN, nil for another command.
	lease *wire.LeaseArgs
}

// checkOption is a set of options.
type checkOption uint8

const (
	optionCost checkOption = 1 << iota
	optionPeek
	optionSync
	optionFail
	optionTTL
	optionID
	optionForce
)

// once notes that an option is given. It returns an error if it was given before.
func (a *checkArgs) once(o checkOption, name string) error {
	if a.given&o != 0 {
		return wire.GivenTwice(name)
	}
	a.given |= o
	return nil
}

// parse reads the arguments after the policy's name, from left to right. If a word names
// an option, the next argument is the option's value. Any other word is the name of an
// attribute, and the next argument is the attribute's value, even if it looks like an
// option.
func (a *checkArgs) parse(args [][]byte) error {
	*a = checkArgs{pairs: a.pairs[:0], units: 1}
	return a.read(args)
}

// read parses the remaining arguments.
func (a *checkArgs) read(args [][]byte) error {
	for len(args) > 0 {
		n, err := a.option(args)
		if err != nil {
			return err
		}
		if n > 0 {
			args = args[n:]
			continue
		}
		if len(args) < 2 {
			return fmt.Errorf("ERR attribute '%s' has no value", command.Clip(args[0], command.ErrorClip))
		}
		a.pairs = append(a.pairs, args[0], args[1])
		args = args[2:]
	}
	return nil
}

// option reads one option and returns how many arguments it took, 0 if the word is no
// option.
func (a *checkArgs) option(args [][]byte) (n int, err error) {
	word := args[0]
	if a.lease != nil {
		if is, err := a.lease.Option(args); is {
			return 2, err
		}
	}
	if !mayBeOption(word) {
		return 0, nil
	}
	n = 1
	switch {
	case a.lease != nil && (command.EqualFold(word, "cost") || command.EqualFold(word, "peek") || command.EqualFold(word, "force")):
		return 0, errLeaseCost
	case command.EqualFold(word, "cost"):
		if len(args) < 2 {
			return 0, command.ErrSyntax
		}
		if err = a.once(optionCost, "COST"); err == nil {
			a.units, err = wire.ParseInteger(args[1])
		}
		n = 2
	case command.EqualFold(word, "peek"):
		a.peek, err = true, a.once(optionPeek, "PEEK")
	case command.EqualFold(word, "force"):
		a.force, err = true, a.once(optionForce, "FORCE")
	case command.EqualFold(word, "sync"):
		if err = wire.SetSync(&a.sync, command.SyncCommit); err == nil {
			err = a.once(optionSync, "SYNC")
		}
	case command.EqualFold(word, "async"):
		if err = wire.SetSync(&a.sync, command.SyncNone); err == nil {
			err = a.once(optionSync, "ASYNC")
		}
	case command.EqualFold(word, "id"):
		n, err = a.readID(args)
	case command.EqualFold(word, "ttl"):
		n, err = a.readTTL(args)
	case command.EqualFold(word, "fail"):
		if len(args) < 2 {
			return 0, command.ErrSyntax
		}
		if err = a.once(optionFail, "FAIL"); err == nil {
			a.fail, err = wire.ParseFailure(args[1])
		}
		n = 2
	default:
		n = 0
	}
	return n, err
}

// mayBeOption reports whether a word may be an option. It rules out most names of
// attributes at a glance.
func mayBeOption(word []byte) bool {
	const first = 1<<('a'&31) | 1<<('c'&31) | 1<<('f'&31) | 1<<('i'&31) | 1<<('p'&31) | 1<<('s'&31) | 1<<('t'&31)
	return len(word) >= len("id") && len(word) <= len("async") && first&(1<<(word[0]&31)) != 0
}

// parseNamed parses a call that may have the option ID. holds reports that it is
// RL.RESERVE.
func (a *checkArgs) parseNamed(args [][]byte, holds bool) error {
	*a = checkArgs{pairs: a.pairs[:0], units: 1, holds: holds, names: true}
	if err := a.read(args); err != nil {
		return err
	}
	switch {
	case a.id != nil && a.peek:
		return errPeekID
	case a.force && (a.peek || a.id != nil):
		return errForce
	}
	return nil
}

// readID reads the option ID and returns how many arguments it took.
func (a *checkArgs) readID(args [][]byte) (n int, err error) {
	switch {
	case !a.names:
		return 0, errNamed
	case len(args) < 2:
		return 0, command.ErrSyntax
	}
	if a.id = args[1]; len(a.id) == 0 || len(a.id) > maxID {
		return 0, errID
	}
	return 2, a.once(optionID, "ID")
}

// parseReserve parses an RL.RESERVE.
func (a *checkArgs) parseReserve(args [][]byte) error {
	return a.parseNamed(args, true)
}

var errHoldTTL = fmt.Errorf("ERR TTL must be %s to %s", policy.FormatDuration(policy.MinHoldTTL), policy.FormatDuration(policy.MaxHoldTTL))

// readTTL reads the option TTL and returns how many arguments it took.
func (a *checkArgs) readTTL(args [][]byte) (n int, err error) {
	switch {
	case !a.holds:
		return 0, errors.New("ERR TTL is only for RL.RESERVE: the policy sets how long RL.CHECK keeps a slot")
	case len(args) < 2:
		return 0, command.ErrSyntax
	}
	if err = a.once(optionTTL, "TTL"); err != nil {
		return 0, err
	}
	if a.ttl, err = wire.ParsePeriod(args[1]); err != nil || a.ttl < policy.MinHoldTTL || a.ttl > policy.MaxHoldTTL {
		err = errHoldTTL
	}
	return 2, err
}

// onlyOptions reads PEEK, SYNC, ASYNC and FAIL, and nothing else.
func (a *checkArgs) onlyOptions(args [][]byte) error {
	const allowed = optionPeek | optionSync | optionFail
	for len(args) > 0 {
		n, err := a.option(args)
		switch {
		case err != nil:
			return err
		case n == 0 || a.given&^allowed != 0:
			return fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(args[0], command.ErrorClip))
		}
		args = args[n:]
	}
	return nil
}

// errNamed is the error of an ID in a call that parseNamed does not read.
var errNamed = errors.New("ERR ID is only for RL.CHECK and RL.RESERVE")

// maxID bounds the ID of a call, in bytes.
const maxID = 128

var (
	errLeaseCost = errors.New("ERR COST, PEEK and FORCE are not options of RL.LEASE: NEED says how many units are needed now")

	errID       = fmt.Errorf("ERR ID must be 1 to %d bytes", maxID)
	errPeekID   = errors.New("ERR PEEK and ID exclude each other")
	errForce    = errors.New("ERR FORCE, PEEK and ID exclude each other")
	errConflict = "IDCONFLICT '%s' was given to another call"
)
