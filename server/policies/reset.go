package policies

import (
	"bytes"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
)

// reset handles RL.POLICY RESET. For one caller, it deletes the counters and penalties that
// belong to that caller alone, and replies how many keys had any. Without a caller, it
// resets the whole policy and replies the new version. Holds on the deleted counters end.
func (e *Editor) reset(call *command.Call) {
	if len(call.Args) == 3 {
		e.resetAll(call, string(call.Args[2]))
		return
	}
	p := e.book.Set().Policy(call.Args[2])
	if p == nil {
		call.Error(e.book.Missing(call.Args[2]))
		return
	}
	if !e.resetsHere(call, p) {
		call.Error(checks.ErrChanging.Error())
		return
	}
	keys, err := callersKeys(p, call.Args[3:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	sess, now, author := call.NewSession(), call.Now, call.Host.Author()
	sess.Use(0) // policies count in database 0
	call.Host.Block(call, command.ArgsSize(keys), func(w *resp.Writer) {
		defer sess.Close()
		n, err := forget(sess, now, p, keys)
		if err != nil {
			w.Error(command.EngineError(err).Error())
			return
		}
		e.audit.Info("caller reset", "author", author, "policy", p.Name, "keys", string(bytes.Join(keys, []byte(" "))), "limits", n)
		w.Int(n)
	})
}

// callersKeys returns copies of the keys of a caller's own counters. If the policy has
// descriptors, pairs are the entries of a descriptor, and the result is the key of its
// counter.
func callersKeys(p *policy.Policy, pairs [][]byte) (keys [][]byte, err error) {
	if p.Descriptors() != nil {
		var matcher policy.Descriptor
		matched, err := checks.MatchDescriptor(&matcher, p, pairs, 0) // a scale does not change the key
		if err != nil || matched.Outcome != policy.Counted {
			return nil, err
		}
		return [][]byte{matched.Key}, nil
	}
	c, err := callOf(p, pairs)
	if err != nil {
		return nil, err
	}
	for _, key := range c.Keys(nil) {
		keys = append(keys, bytes.Clone(key))
	}
	return keys, nil
}

// forget ends the holds on some counters of a policy, deletes the counters, and ends the
// callers' penalties. It returns how many keys had any of these. A hold that begins
// meanwhile continues.
func forget(sess *engine.Session, now int64, p *policy.Policy, keys [][]byte) (n int64, err error) {
	there := make([]bool, len(keys)) // because the end of a hold may delete the slots' key
	for i, key := range keys {
		if there[i], err = sess.Exists(now, key); err != nil {
			return 0, err
		}
	}
	_, err = sess.EndHolds(now, holdsOf(p.Name), func(r *reservation.Record) bool {
		for i := range r.Limits {
			for _, key := range keys {
				if bytes.Equal(r.Limits[i].Key, key) {
					return true
				}
			}
		}
		return false
	})
	for i, key := range keys {
		if err != nil {
			return n, err
		}
		if _, err = sess.Delete(now, key); err != nil {
			return n, err
		}
		var forgiven bool
		forgiven, err = sess.Forgive(now, key, penaltyOf(p, key))
		n += command.Truth(there[i] || forgiven)
	}
	return n, err
}

// resetAll resets a policy: it makes a new version in which all counters begin at zero.
// Holds of earlier versions end.
func (e *Editor) resetAll(call *command.Call, name string) {
	now := call.Now // the worker may still run when call is reused
	e.change(call, len(name), false, func() (*change, error) {
		st, ok := e.book.stored(name)
		if !ok || st.Gone {
			return nil, errNoPolicy
		}
		c, err := e.setting(name, st.Text, changeArgs{version: int64(st.Version), void: true})
		if err != nil {
			return nil, err
		}
		c.ends = name
		c.made = func(sess *engine.Session, versions []uint64) error {
			_, err := sess.EndHolds(now, holdsOf(name), func(r *reservation.Record) bool { return r.Version < versions[0] })
			return err
		}
		return c, nil
	})
}

// holdsOf returns the prefix of the keys of a policy's holds.
func holdsOf(name string) []byte { return append(append([]byte(checks.HoldPrefix), name...), ';') }

// penaltyOf returns the penalty of the limit that a counter's key belongs to; nil if it has
// none.
func penaltyOf(p *policy.Policy, key []byte) *engine.Penalty {
	_, id, _, ok := policy.ParseKey(key)
	if l := p.LimitWithID(id); ok && l != nil {
		return (*engine.Penalty)(l.Penalty)
	}
	return nil
}
