package command

// Join says how the replies of the parts of a command become one reply. A command with a
// Join may run in parts, one for each partition that has keys of it. The parts run at
// different moments.
type Join uint8

const (
	// NoJoin is for commands that cannot run in parts.
	NoJoin  Join = iota
	JoinOK       // all parts reply OK
	JoinSum      // the sum of numbers
	JoinMin      // the least number
	JoinAny      // one part's reply that is not null, chosen at random
	// JoinValues is a list with a value for each key, in the order of the keys.
	JoinValues
	// JoinLists is one list with the elements of all parts.
	JoinLists
	// JoinScan is the reply of SCAN, which one part answers at a time.
	JoinScan
)
