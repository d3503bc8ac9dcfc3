package keyspace

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// moveCommands returns the commands that give keys another name or another database.
func moveCommands() []command.Spec {
	const group = "generic"
	two := command.Keys{First: 1, Last: 2, Step: 1}
	return []command.Spec{
		{Name: "rename", Arity: 3, Flags: command.Write, Keys: two, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the length of the value", Summary: "Renames a key and overwrites the destination.",
			Syntax: "key newkey", Handler: rename},
		{Name: "renamenx", Arity: 3, Flags: command.Write | command.Fast, Keys: two, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the length of the value", Summary: "Renames a key only when the target key name doesn't exist.",
			Syntax: "key newkey", Handler: renameNX},
		{Name: "copy", Arity: -3, Flags: command.Write | command.DenyOOM | command.Databases, Keys: two, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the length of the value", Summary: "Copies the value of a key to a new key.",
			Syntax: "source destination [DB destination-db] [REPLACE]", Handler: copyKey},
		{Name: "move", Arity: 3, Flags: command.Write | command.Fast | command.Databases, Keys: command.Keys{First: 1, Last: 1, Step: 1}, Categories: command.CatKeyspace, Group: group,
			Complexity: "O(N), N the length of the value", Summary: "Moves a key to another database.",
			Syntax: "key db", Handler: move},
		{Name: "swapdb", Arity: 3, Flags: command.Write | command.Fast, Categories: command.CatKeyspace | command.CatDangerous, Group: "server",
			Complexity: "O(1)", Summary: "Refused: a key stays in its database.",
			Syntax: "index1 index2", Handler: swapDB},
	}
}

var errSameObject = errors.New("ERR source and destination objects are the same")

func rename(call *command.Call) {
	if call.LongKeys(call.Args[1]) {
		call.Leave()
		return
	}
	_, err := call.Sess.Rename(call.Now, call.Args[1], call.Args[2], call.Sess.Database(), true)
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.OK()
}

func renameNX(call *command.Call) {
	if call.LongKeys(call.Args[1]) {
		call.Leave()
		return
	}
	renamed, err := call.Sess.Rename(call.Now, call.Args[1], call.Args[2], call.Sess.Database(), false)
	replyTruth(call, renamed, err)
}

func copyKey(call *command.Call) {
	args := call.Args
	from := call.Sess.Database()
	to, replace := from, false
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case command.EqualFold(rest[0], "replace"):
			replace = true
		case command.EqualFold(rest[0], "db") && len(rest) > 1:
			rest = rest[1:]
			var err error
			if to, err = command.ParseDatabase(rest[0], call.Host.Databases(), "ERR Copying to another database is not allowed in cluster mode"); err != nil {
				call.Error(err.Error())
				return
			}
		default:
			call.Error(command.ErrSyntax.Error())
			return
		}
	}
	if from == to && string(args[1]) == string(args[2]) {
		call.Error(errSameObject.Error())
		return
	}
	if call.LongKeys(args[1]) {
		call.Leave()
		return
	}
	copied, err := call.Sess.Copy(call.Now, args[1], args[2], to, replace)
	replyDone(call, copied, err)
}

func move(call *command.Call) {
	to, err := command.ParseDatabase(call.Args[2], call.Host.Databases(), "ERR MOVE is not allowed in cluster mode")
	switch {
	case err != nil:
		call.Error(err.Error())
		return
	case to == call.Sess.Database():
		call.Error(errSameObject.Error())
		return
	}
	if call.LongKeys(call.Args[1]) {
		call.Leave()
		return
	}
	moved, err := call.Sess.Rename(call.Now, call.Args[1], call.Args[1], to, false)
	replyDone(call, moved, err)
}

// replyDone replies 1 if done, else 0. A missing key is not an error.
func replyDone(call *command.Call, done bool, err error) {
	if errors.Is(err, engine.ErrNoKey) {
		err = nil
	}
	replyTruth(call, done, err)
}

func swapDB(call *command.Call) {
	call.Error("ERR SWAPDB is not supported: a key stays in its database, see COPY and MOVE")
}
