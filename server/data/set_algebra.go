package data

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of SINTERCARD. Texts carry their RESP prefix, as clients see them.
var (
	errNumKeys     = errors.New("ERR numkeys should be greater than 0")
	errFewKeys     = errors.New("ERR Number of keys can't be greater than number of args")
	errLimit       = errors.New("ERR LIMIT can't be negative")
	errManyMembers = errors.New("ERR the sets have more than 1048576 members together")
)

// algebraMost bounds the members of all sets that one command puts together.
const algebraMost = 1 << 20

// setAlgebraCommands put several sets together in one step.
func setAlgebraCommands() []command.Spec {
	const ofAll = "O(N), N the number of members of all sets"
	var list []command.Spec
	for _, of := range []struct {
		name, what string
		combine    combination
	}{{"sinter", "intersect", intersect}, {"sunion", "union", union}, {"sdiff", "difference", subtract}} {
		read := setCommand(of.name, -2, command.Readonly, ofAll, "key [key ...]",
			"Returns the "+of.what+" of multiple sets.", of.combine.reply)
		store := setCommand(of.name+"store", -3, command.Write|command.DenyOOM, ofAll, "destination key [key ...]",
			"Stores the "+of.what+" of multiple sets in a key.", of.combine.store)
		read.Keys = command.Keys{First: 1, Last: -1, Step: 1}
		store.Keys = read.Keys
		list = append(list, read, store)
	}
	card := setCommand("sintercard", -3, command.Readonly, ofAll, "numkeys key [key ...] [LIMIT limit]",
		"Returns the number of members of the intersect of multiple sets.", sintercard)
	card.Keys = command.Keys{Find: numKeys}
	return append(list, card)
}

// numKeys finds the keys of a command that tells their number first.
func numKeys(args [][]byte, at []int) []int {
	n, ok := resp.ParseInt(args[1])
	if !ok {
		return at
	}
	for i := 2; i < len(args) && int64(i-2) < n; i++ {
		at = append(at, i)
	}
	return at
}

// combination makes one list of members of the sets that keys hold, which must
// be held. ok is false after an error has been replied.
type combination func(call *command.Call, keys [][]byte) (members [][]byte, ok bool)

func (combine combination) reply(call *command.Call) {
	combine.run(call, call.Args[1:], call.Args[1:], func(members [][]byte) {
		call.W.Set(len(members))
		for _, m := range members {
			call.W.Bulk(m)
		}
	})
}

func (combine combination) store(call *command.Call) {
	combine.run(call, call.Args[2:], call.Args[1:], func(members [][]byte) { storeSet(call, call.Args[1], members) })
}

// run combines the sets of keys and calls use with the members, unless it has
// replied an error or has put the call off. Meanwhile held, which are all keys
// of the call, are held.
func (combine combination) run(call *command.Call, keys, held [][]byte, use func(members [][]byte)) {
	if long(call, len(keys)) {
		leave(call)
		return
	}
	h := holdKeys(call, held)
	total, ok := countMembers(call, keys)
	if ok && long(call, total) {
		h.end()
		leave(call)
		return
	}
	defer h.end()
	if !ok {
		return
	}
	if total > algebraMost {
		call.Error(errManyMembers.Error())
		return
	}
	if members, ok := combine(call, keys); ok {
		use(members)
	}
}

// storeSet makes members the set of key, which is held and may have held a value
// of any data type, and replies how many they are. Without members there is no
// key afterwards.
func storeSet(call *command.Call, key []byte, members [][]byte) {
	kind, exists, err := call.Sess.Kind(call.Now, key)
	if err == nil && exists && !kind.IsData() {
		err = engine.ErrWrongType
	}
	b := &scratch{}
	if err == nil {
		s := packed.NewSet(b)
		_, err = s.AddAll(members)
	}
	if err == nil && exists && (kind != engine.Set || len(members) == 0) {
		_, err = call.Sess.Delete(call.Now, key)
	}
	if err != nil {
		call.Fail(err)
		return
	}
	if len(members) > 0 {
		v := visit(call, key, engine.Set)
		if v == nil {
			return
		}
		if err = v.Set(b.Bytes()); err == nil {
			v.SetDeadline(engine.NoExpiry)
		}
		v.Close()
	}
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(int64(len(members)))
}

// countMembers returns how many members the sets of keys have together. It looks
// at all of them, so that a key of another kind is an error whatever the others
// are.
func countMembers(call *command.Call, keys [][]byte) (total int, ok bool) {
	for _, key := range keys {
		v := visit(call, key, engine.Set)
		if v == nil {
			return 0, false
		}
		total += packed.Len(v.Bytes())
		v.Close()
	}
	return total, true
}

// copySet returns copies of all members of a set.
func copySet(call *command.Call, key []byte) (members [][]byte, ok bool) {
	v := visit(call, key, engine.Set)
	if v == nil {
		return nil, false
	}
	s := packed.NewSet(newScratch(v.Bytes()))
	v.Close()
	members = make([][]byte, 0, s.Len())
	for m := range s.All() {
		members = append(members, m)
	}
	return members, true
}

// keep returns those of members that the set of key has, or has not.
func keep(call *command.Call, members [][]byte, key []byte, has bool) (kept [][]byte, ok bool) {
	v := visit(call, key, engine.Set)
	if v == nil {
		return nil, false
	}
	defer v.Close()
	s := packed.NewSet(v)
	for _, m := range members {
		if s.Has(m) == has {
			kept = append(kept, m)
		}
	}
	return kept, true
}

func intersect(call *command.Call, keys [][]byte) (members [][]byte, ok bool) {
	// The smallest set first: what is not in it needs no look.
	smallest, least := 0, algebraMost+1
	for i, key := range keys {
		v := visit(call, key, engine.Set)
		if v == nil {
			return nil, false
		}
		if n := packed.Len(v.Bytes()); n < least {
			smallest, least = i, n
		}
		v.Close()
	}
	members, ok = copySet(call, keys[smallest])
	for i, key := range keys {
		if ok && i != smallest && len(members) > 0 {
			members, ok = keep(call, members, key, true)
		}
	}
	return members, ok
}

func subtract(call *command.Call, keys [][]byte) (members [][]byte, ok bool) {
	members, ok = copySet(call, keys[0])
	for _, key := range keys[1:] {
		if ok && len(members) > 0 {
			members, ok = keep(call, members, key, false)
		}
	}
	return members, ok
}

func union(call *command.Call, keys [][]byte) (members [][]byte, ok bool) {
	seen := make(map[string]struct{})
	for _, key := range keys {
		more, ok := copySet(call, key)
		if !ok {
			return nil, false
		}
		for _, m := range more {
			if _, ok := seen[string(m)]; !ok {
				seen[string(m)] = struct{}{}
				members = append(members, m)
			}
		}
	}
	return members, true
}

func sintercard(call *command.Call) {
	n, ok := resp.ParseInt(call.Args[1])
	if !ok || n < 1 {
		call.Error(errNumKeys.Error())
		return
	}
	if n > int64(len(call.Args)-2) {
		call.Error(errFewKeys.Error())
		return
	}
	keys, options := call.Args[2:2+n], call.Args[2+n:]
	limit := int64(0)
	for ; len(options) > 0; options = options[2:] {
		if len(options) < 2 || !command.EqualFold(options[0], "limit") {
			call.Error(command.ErrSyntax.Error())
			return
		}
		if limit, ok = resp.ParseInt(options[1]); !ok || limit < 0 {
			call.Error(errLimit.Error())
			return
		}
	}
	combination(intersect).run(call, keys, keys, func(members [][]byte) {
		count := int64(len(members))
		if limit > 0 {
			count = min(count, limit)
		}
		call.W.Int(count)
	})
}
