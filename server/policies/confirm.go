package policies

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
)

// # Changes and groups
//
// Policies and overrides are records of the first group. Leaders of other groups decide by
// what the first group's replica on their node has. That may be behind. So a change is
// numbered, and its reply waits until the leader of each other group has taken the change
// over, and has put its number into its own group's log (RL.POLICY CONFIRM). A node that
// becomes leader of such a group later reads the number there. It decides no call on a
// policy before its own policies have that number. So no call is decided by policies older
// than those that somebody was told about.
//
// A node with one group has none of this.

// numberRecord holds the number of the last change, in the first group, and of the last
// confirmed change in the others.
const numberRecord = internalPrefix + "number"

// confirmPatience is how long a change waits for the other groups and for changes before it,
// for example while a group has no leader. confirmPause is how often it tries again.
const (
	confirmPatience = 5 * time.Second
	confirmPause    = 20 * time.Millisecond
)

// errUnconfirmed is the error of a change that was made, which a group may not follow yet.
// Its code is not TRYAGAIN: that says that nothing has changed.
var errUnconfirmed = errors.New("UNCERTAIN the change is made, but not every group has confirmed it")

// Elsewhere runs a command in each group except the first. It returns the first error.
type Elsewhere func(args [][]byte, patience time.Duration) error

// confirmer confirms changes in other groups.
type confirmer struct {
	elsewhere Elsewhere
	turn      chan struct{} // holds one value while a change is being confirmed
	confirmed atomic.Uint64
}

// numberOf reads a numberRecord. No record is 0.
func numberOf(value []byte) uint64 {
	n, _ := strconv.ParseUint(string(value), 10, 64)
	return n
}

// numbered adds the number of a change to its records, if there are several groups. get
// reads the present records.
func (b *Book) numbered(puts []engine.PolicyRecord, get func(name string) []byte) []engine.PolicyRecord {
	if !b.homes.Several() {
		return puts
	}
	return append(puts, engine.PolicyRecord{Name: numberRecord, Value: strconv.AppendUint(nil, numberOf(get(numberRecord))+1, 10)})
}

// follows makes the book follow what other groups have confirmed.
func (b *Book) follows(e *engine.Engine) {
	e.WatchPolicies(func(changes []engine.PolicyRecord, _ bool) {
		for i := range changes {
			if changes[i].Name != numberRecord {
				continue
			}
			for n := numberOf(changes[i].Value); ; {
				if is := b.needed.Load(); n <= is || b.needed.CompareAndSwap(is, n) {
					break
				}
			}
		}
	})
}

// Behind implements checks.Book.
func (b *Book) Behind() bool { return b.needed.Load() > b.current().number }

// await waits until the book has the change with a number. It returns false if that takes
// too long.
func (b *Book) await(number uint64, patience time.Duration) bool {
	for begun := time.Now(); b.current().number < number; time.Sleep(changePoll) {
		if time.Since(begun) > patience {
			return false
		}
	}
	return true
}

// confirm returns when every group has the changes that were made. void names a policy all of
// whose holds of earlier versions end, "" for none.
func (e *Editor) confirm(void string, version uint64) error {
	b, c := e.book, &e.confirms
	if !b.homes.Several() {
		return nil
	}
	number := numberOf(b.engine.PolicyRecord(numberRecord))
	if void == "" && number <= c.confirmed.Load() {
		return nil
	}
	deadline := time.Now().Add(confirmPatience)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-time.After(confirmPatience): // a group is lost, and others wait for it, too
		return errUnconfirmed
	}
	if void == "" && number <= c.confirmed.Load() { // meanwhile
		return nil
	}
	number = numberOf(b.engine.PolicyRecord(numberRecord))
	if !b.await(number, time.Until(deadline)) {
		return errUnconfirmed
	}
	args := [][]byte{[]byte("RL.POLICY"), []byte("CONFIRM"), strconv.AppendUint(nil, number, 10)}
	if void != "" {
		args = append(args, []byte(void), strconv.AppendUint(nil, version, 10))
	}
	if err := c.elsewhere(args, time.Until(deadline)); err != nil {
		return fmt.Errorf("%w: %w", errUnconfirmed, err)
	}
	c.confirmed.Store(max(c.confirmed.Load(), number))
	return nil
}

// confirmed replies a change of overrides when every group has it.
func (e *Editor) confirmed(call *command.Call, reply func(w *resp.Writer)) {
	if !e.book.homes.Several() {
		reply(call.W)
		return
	}
	call.Waits = true
	call.Host.Block(call, 0, func(w *resp.Writer) {
		if err := e.confirm("", 0); err != nil {
			w.Error(oneLine(err.Error()))
			return
		}
		reply(w)
	})
}

// confirmHere is RL.POLICY CONFIRM. If this node has the change, it gives the change's number
// to its group.
func (e *Editor) confirmHere(call *command.Call) {
	number, err := strconv.ParseUint(string(call.Args[2]), 10, 64)
	version, void := uint64(0), ""
	if err == nil && len(call.Args) == 5 {
		void = string(call.Args[3])
		version, err = strconv.ParseUint(string(call.Args[4]), 10, 64)
	}
	if err != nil || len(call.Args) == 4 || len(call.Args) > 5 {
		call.Error(command.ErrSyntax.Error())
		return
	}
	if e.book.current().number < number { // the other node asks again
		call.Error(checks.ErrChanging.Error())
		return
	}
	call.Sync = command.SyncCommit
	err = call.Sess.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		if numberOf(get(numberRecord)) >= number {
			return nil, nil
		}
		return []engine.PolicyRecord{{Name: numberRecord, Value: strconv.AppendUint(nil, number, 10)}}, nil
	})
	switch {
	case err != nil:
		call.Fail(err)
	case void == "":
		call.W.OK()
	default:
		sess, now := call.NewSession(), call.Now
		sess.Use(0)
		call.Host.Block(call, 0, func(w *resp.Writer) {
			defer sess.Close()
			if _, err := sess.EndHolds(now, holdsOf(void), func(r *reservation.Record) bool { return r.Version < version }); err != nil {
				w.Error(command.EngineError(err).Error())
				return
			}
			w.OK()
		})
	}
}

// # Homes and changes

// moves reports whether an edit moves counters to other groups, so that they begin at zero.
func (b *Book) moves(old, new *policy.Record) bool {
	return b.homes.Several() && old != nil && new != nil && old.Definition != nil && new.Definition != nil &&
		new.Definition.MovesFrom(old.Definition)
}

// resetHome is command.Spec.Home of RL.POLICY RESET: a caller's counters are in one group.
func (e *Editor) resetHome(args [][]byte) (slot uint16, ok bool) {
	set, _ := e.book.Current()
	p := set.Policy(args[2])
	if p == nil || len(args) < 4 {
		return 0, false
	}
	return e.book.homes.SlotOf(p, args[3:])
}

// resetsHere reports whether the counters of a caller are in the call's group.
func (e *Editor) resetsHere(call *command.Call, p *policy.Policy) bool {
	homes := e.book.homes
	if !homes.Several() {
		return true
	}
	slot, ok := homes.SlotOf(p, call.Args[3:])
	return homes.Here(call.Sess, slot, ok) && !e.book.Behind()
}
