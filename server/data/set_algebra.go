package data

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of SINTERCARD. Their texts begin with the RESP code that clients see.
var (
	errNumKeys     = errors.New("ERR numkeys should be greater than 0")
	errFewKeys     = errors.New("ERR Number of keys can't be greater than number of args")
	errLimit       = errors.New("ERR LIMIT can't be negative")
	errManyMembers = errors.New("ERR the sets have more than 1048576 members together")
	errManyBytes   = errors.New("ERR the sets have more than 67108864 bytes together")
)

const (
	// algebraMost bounds the number of members of all sets of one command together.
	// algebraBytes bounds the size of their copies.
	algebraMost  = 1 << 20
	algebraBytes = 64 << 20
	// algebraTries is how many times a command works on copies. It begins again if
	// somebody has changed a set meanwhile. After the last try it isolates the sets.
	algebraTries = 4
)

// setAlgebraCommands returns the commands that combine several sets.
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
	card.Keys = command.Keys{Count: 1}
	return append(list, card)
}

// combination returns the members of a combination of sets, such as their union. The
// members are copies.
type combination func(sets []packed.Set) (members [][]byte)

// A use takes the members of a combination. It replies them, or returns a function that
// stores and replies them. run calls that function while all keys of the call are
// isolated.
type use func(members [][]byte) (store func())

func (combine combination) reply(call *command.Call) {
	combine.run(call, call.Args[1:], call.Args[1:], func(members [][]byte) func() {
		call.W.Set(len(members))
		for _, m := range members {
			call.W.Bulk(m)
		}
		return nil
	})
}

func (combine combination) store(call *command.Call) {
	combine.run(call, call.Args[2:], call.Args[1:], func(members [][]byte) func() {
		b := &scratch{}
		s := packed.NewSet(b)
		_, err := s.AddAll(members)
		return func() { storeSet(call, call.Args[1], b.Bytes(), len(members), err) }
	})
}

// run combines the sets of keys and calls use with the resulting members. In two cases
// it does not call use: it has replied an error, or it has moved the call to a worker,
// where the handler runs again. The parameter all has every key of the call, and run
// isolates these keys.
//
// On a worker, run works on copies and locks nothing. It watches the sets, and begins again
// if somebody has changed a set.
func (combine combination) run(call *command.Call, keys, all [][]byte, use use) {
	if call.Long(len(keys)) {
		call.Leave()
		return
	}
	if !call.OnWorker {
		combine.held(call, keys, all, use)
		return
	}
	for range algebraTries {
		if combine.watching(call, keys, all, use) {
			return
		}
	}
	combine.held(call, keys, all, use)
}

// held does the work of run while all keys are isolated.
func (combine combination) held(call *command.Call, keys, all [][]byte, use use) {
	step := isolate(call, all)
	entries, ok := countMembers(call, keys)
	if ok && call.Long(entries) {
		step.Commit()
		call.Leave()
		return
	}
	defer step.Commit()
	if !ok {
		return
	}
	sets, ok := copySets(call, keys)
	if !ok {
		return
	}
	if store := use(combine(sets)); store != nil {
		store()
	}
}

// watching does the work of run without locks until the end. If somebody has changed a set
// meanwhile, it returns false and has replied nothing.
func (combine combination) watching(call *command.Call, keys, all [][]byte, use use) (done bool) {
	watched := make([]engine.Watch, 0, len(keys))
	defer func() {
		for i := range watched {
			watched[i].End()
		}
	}()
	for _, key := range keys {
		w, err := call.Sess.Watch(call.Now, key)
		if err != nil {
			call.Fail(err)
			return true
		}
		watched = append(watched, w)
	}
	if _, ok := countMembers(call, keys); !ok {
		return true
	}
	sets, ok := copySets(call, keys)
	if !ok {
		return true
	}
	start := len(call.W.B)
	store := use(combine(sets))
	step := isolate(call, all)
	defer step.Commit()
	for i := range watched {
		same, err := call.Sess.Unchanged(call.Now, &watched[i])
		if err != nil {
			call.W.B = call.W.B[:start]
			call.Fail(err)
			return true
		}
		if !same {
			call.W.B = call.W.B[:start]
			return false
		}
	}
	if store != nil {
		store()
	}
	return true
}

// storeSet stores value, a set of n members, at key and replies n. If invalid is not nil,
// it replies that error instead. The key must be isolated, and may hold a value of any data
// type. If n is 0, the key is deleted.
func storeSet(call *command.Call, key, value []byte, n int, invalid error) {
	kind, exists, err := call.Sess.Kind(call.Now, key)
	switch {
	case err != nil:
	case exists && !kind.IsData():
		err = engine.ErrWrongType
	default:
		err = invalid
	}
	if err == nil && exists && (kind != algo.Set || n == 0) {
		_, err = call.Sess.Delete(call.Now, key)
	}
	if err == nil && n > 0 {
		v := visit(call, key, algo.Set)
		if v == nil {
			return
		}
		if err = v.Set(value); err == nil {
			v.SetDeadline(engine.NoExpiry)
		}
		v.Close()
	}
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(int64(n))
}

// countMembers returns the work, in entries, to walk over the sets of keys. It replies an
// error if a key holds another type, or if the sets have too many members together. It
// reads all keys, so a key of another type is always an error.
func countMembers(call *command.Call, keys [][]byte) (entries int, ok bool) {
	members, bytes := 0, 0
	for _, key := range keys {
		v := visit(call, key, algo.Set)
		if v == nil {
			return 0, false
		}
		members += packed.Len(v.Bytes())
		bytes += v.Len()
		v.Close()
	}
	switch {
	case members > algebraMost:
		call.Error(errManyMembers.Error())
		return 0, false
	case bytes > algebraBytes:
		call.Error(errManyBytes.Error())
		return 0, false
	}
	return members + bytes/command.BytesOfEntry, true
}

// copySets returns copies of the sets of keys. If that fails, it replies an error.
func copySets(call *command.Call, keys [][]byte) (sets []packed.Set, ok bool) {
	for _, key := range keys {
		v := visit(call, key, algo.Set)
		if v == nil {
			return nil, false
		}
		sets = append(sets, packed.NewSet(newScratch(v.Bytes())))
		v.Close()
	}
	return sets, true
}

// members returns all members of a set.
func members(s *packed.Set) [][]byte {
	list := make([][]byte, 0, s.Len())
	for m := range s.All() {
		list = append(list, m)
	}
	return list
}

// keep returns the members that are in s. If has is false, it returns the members that are
// not in s.
func keep(members [][]byte, s *packed.Set, has bool) (kept [][]byte) {
	for _, m := range members {
		if s.Has(m) == has {
			kept = append(kept, m)
		}
	}
	return kept
}

func intersect(sets []packed.Set) [][]byte {
	// Begin with the smallest set: members outside it need no look-up.
	smallest := 0
	for i := range sets {
		if sets[i].Len() < sets[smallest].Len() {
			smallest = i
		}
	}
	common := members(&sets[smallest])
	for i := range sets {
		if i != smallest {
			common = keep(common, &sets[i], true)
		}
	}
	return common
}

func subtract(sets []packed.Set) [][]byte {
	rest := members(&sets[0])
	for i := range sets[1:] {
		rest = keep(rest, &sets[1+i], false)
	}
	return rest
}

func union(sets []packed.Set) (all [][]byte) {
	seen := make(map[string]struct{})
	for i := range sets {
		for m := range sets[i].All() {
			if _, ok := seen[string(m)]; !ok {
				seen[string(m)] = struct{}{}
				all = append(all, m)
			}
		}
	}
	return all
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
	combination(intersect).run(call, keys, keys, func(members [][]byte) func() {
		count := int64(len(members))
		if limit > 0 {
			count = min(count, limit)
		}
		call.W.Int(count)
		return nil
	})
}
