package data

import (
	"bytes"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

func listMoveCommands() []command.Spec {
	const flags = command.Write | command.DenyOOM
	list := []command.Spec{
		listCommand("lmove", 5, flags, "O(1)", "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
			"Returns an element after popping it from one list and pushing it to another. Deletes the list with its last element.", lmove),
		listCommand("rpoplpush", 3, flags, "O(1)", "source destination",
			"Returns the last element of a list after removing and pushing it to another list. Deletes the list with its last element.", rpoplpush),
	}
	for i := range list {
		list[i].Keys = command.Keys{First: 1, Last: 2, Step: 1}
	}
	return list
}

func rpoplpush(call *command.Call) { moveElement(call, false, true) }

func lmove(call *command.Call) {
	var left [2]bool
	for i, side := range call.Args[3:5] {
		left[i] = command.EqualFold(side, "left")
		if !left[i] && !command.EqualFold(side, "right") {
			call.Error(command.ErrSyntax.Error())
			return
		}
	}
	moveElement(call, left[0], left[1])
}

// moveElement moves the first or last element of one list to the start or end of another.
// It adds the element before it removes it. So an element that cannot be added stays in its
// list.
func moveElement(call *command.Call, fromFront, toFront bool) {
	source, destination := call.Args[1], call.Args[2]
	step := isolate(call, [][]byte{source, destination})
	defer step.Commit()
	v := visit(call, source, algo.List)
	if v == nil {
		return
	}
	if !v.Exists() {
		v.Close()
		call.W.Null()
		return
	}
	if bytes.Equal(source, destination) {
		if call.Long(v.Len() / command.BytesOfEntry) { // the list's bytes are copied
			v.Close()
			step.Commit()
			call.Leave()
			return
		}
		rotate(call, v, fromFront, toFront)
		v.Close()
		return
	}
	l := packed.NewList(v)
	at := end(&l, fromFront)
	element := bytes.Clone(l.At(at))
	v.Close()
	if v = visit(call, destination, algo.List); v == nil {
		return
	}
	l = packed.NewList(v)
	err := pushOne(&l, element, toFront)
	v.Close()
	if err != nil {
		call.Fail(err)
		return
	}
	if v = visit(call, source, algo.List); v == nil {
		return
	}
	l = packed.NewList(v)
	removeElements(v, &l, at, at+1)
	v.Close()
	call.W.Bulk(element)
}

// rotate moves an element within the list that v holds.
func rotate(call *command.Call, v *engine.Value, fromFront, toFront bool) {
	b := newScratch(v.Bytes())
	l := packed.NewList(b)
	at := end(&l, fromFront)
	element := bytes.Clone(l.At(at))
	if fromFront != toFront {
		l.RemoveRange(at, at+1)
		err := pushOne(&l, element, toFront)
		if err == nil {
			err = v.Set(b.Bytes())
		}
		if err != nil {
			call.Fail(err)
			return
		}
	}
	v.Changed() // also if the element has not moved
	call.W.Bulk(element)
}

// end returns the index of the first or the last element.
func end(l *packed.List, front bool) int {
	if front {
		return 0
	}
	return l.Len() - 1
}

func pushOne(l *packed.List, element []byte, front bool) error {
	one := [][]byte{element}
	if front {
		return l.PushFront(one)
	}
	return l.PushBack(one)
}
