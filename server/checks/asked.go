package checks

import "errors"

// Asked is what the arguments of a call about a policy say, for who tells of the call.
type Asked struct {
	// Lists are the attributes of an RL.CHECK or RL.RESERVE, or the entries of each
	// descriptor of an RL.DESCRIPTORS: names and values in turn, views of the
	// arguments.
	Lists [][][]byte
	Units int64 // of COST, or hits of all descriptors
	Peek  bool
}

var errNotAsked = errors.New("the command asks no policy")

// AskedBy reads the arguments of a command, whose name is in lower case, or what is left
// of them. The error is that of the call.
func AskedBy(name string, args [][]byte) (Asked, error) {
	const leastArgs = 4 // that parse looks at without asking
	switch {
	case len(args) < 2, name == "rl.descriptors" && len(args) < leastArgs:
		return Asked{}, errFewArguments
	}
	switch name {
	case "rl.check", "rl.reserve":
		var a checkArgs
		err := a.parseReserve(args[2:])
		return Asked{[][][]byte{a.pairs}, a.units, a.peek}, err
	case "rl.descriptors":
		var a descriptorArgs
		err := a.parse(args[1:])
		asked := Asked{Units: a.hits, Peek: a.options.peek}
		for i := range a.asked {
			asked.Lists = append(asked.Lists, a.asked[i].Entries)
		}
		return asked, err
	}
	return Asked{}, errNotAsked
}
