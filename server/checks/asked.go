package checks

import "errors"

// Asked is what the arguments of a call about a policy say. The decision log uses it.
type Asked struct {
	// Lists are the attributes of an RL.CHECK or RL.RESERVE, or the entries of each
	// descriptor of an RL.DESCRIPTORS. Names and values alternate; they are views of the
	// arguments.
	Lists [][][]byte
	Units int64 // of COST, or the hits of all descriptors
	Peek  bool
}

var errNotAsked = errors.New("the command asks no policy")

// AskedBy reads the arguments of a command, whose name is in lower case. They may be cut
// short, as far as they were kept. It returns the error that the call got.
func AskedBy(name string, args [][]byte) (Asked, error) {
	const leastArgs = 4 // parse reads these without a check
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
