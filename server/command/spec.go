package command

import (
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// Spec describes one command or subcommand.
type Spec struct {
	Name string // lower case
	// Arity is the number of arguments, including the command's name and the subcommand's.
	// A negative arity -n means at least n arguments.
	Arity      int
	Flags      Flag
	Keys       Keys
	Categories Category
	// Channels says which arguments are channels. They are not keys, but clients of a
	// cluster hash them as keys to find the node.
	Channels Keys

	// Join says how the command runs if its keys are in several partitions. If it has no
	// keys, it is about all partitions.
	Join Join

	// Home returns the slot to which the command belongs although it has no key in that slot.
	// ok is false for a call that belongs where its keys are or, without keys, in the first
	// partition. Home is nil if it never has a slot. It is asked only if there are several
	// partitions.
	Home func(args [][]byte) (slot uint16, ok bool)

	// Derived returns the keys of database 0 that the command touches at this time but that
	// are not among its arguments. A step that isolates the command's keys also isolates
	// these. Derived is nil if there are never such keys.
	Derived func(args [][]byte, now int64) [][]byte

	// Ahead prepares a command of a pipeline before the pipeline's first command runs. It
	// finds the keys that the command will look up, and prefetches them. The Handler gets
	// the same args in the same Round of the call, and may use what Ahead leaves in the
	// call's Memory. Ahead must not reply or change anything. Ahead is nil for commands
	// whose keys are arguments.
	Ahead func(call *Call, args [][]byte)

	// Headless returns how a call is answered without a leader. It is set for every command
	// with the flag Limit, and nil for all others.
	Headless func(args [][]byte) Headless

	// Sets is not nil for a command that sets its first argument to a value, whatever value
	// the key had before. Sets reports whether the call leaves an existing value unchanged.
	Sets func(args [][]byte) (onlyNew bool)

	// The texts for COMMAND DOCS. Syntax describes the arguments after the name, in the
	// notation of redis.io: [optional], <one | another>, "name [name ...]", TOKEN value.
	Group, Complexity, Summary, Syntax string

	// Handler runs the command. A container is a command whose first argument names one of
	// Subs. Its Handler runs the container's name without a subcommand. If the name alone
	// is an error, Handler is nil and the arity is -2. NewTable adds HELP to Subs.
	Handler Handler
	Subs    []Spec

	// Secrets appends to at the positions of arguments that MONITOR and SLOWLOG must not
	// show. A nil Secrets means that there are none.
	Secrets func(args [][]byte, at []int) []int

	// Guards reports whether only the user admin may make a call with these arguments. If
	// Guards is nil, the arguments do not matter. For a command with the flag Guarded, only
	// admin may make any call.
	Guards func(args [][]byte) bool

	// NewTable sets the fields below.
	sub   bool   // is the subcommand of a container
	Full  string // "client|setname"
	Upper string // "CLIENT", for error texts
	Index int    // position in the counters of commands
	docs  []argument
	bySub map[string]*Spec
}

// Redacted is what Public shows in place of a secret argument.
const Redacted = "(redacted)"

// Public returns a call's arguments without secrets, for MONITOR, SLOWLOG and the decision
// log.
func (cmd *Spec) Public(args [][]byte) [][]byte {
	if cmd.Secrets == nil {
		return args
	}
	shown := slices.Clone(args)
	for _, i := range cmd.Secrets(args, nil) {
		shown[i] = []byte(Redacted)
	}
	return shown
}

// ForAdmin reports whether only the user admin may make a call with these arguments.
func (cmd *Spec) ForAdmin(args [][]byte) bool {
	return cmd.Flags&Guarded != 0 || cmd.Guards != nil && cmd.Guards(args)
}

// HasKeys reports whether any argument can be a key.
func (cmd *Spec) HasKeys() bool { return cmd.Keys.First != 0 || cmd.Keys.movable() }

// Confirms reports whether the command begins or ends subscriptions, which it confirms by
// messages.
func (cmd *Spec) Confirms() bool {
	const flags = PubSub | Subscribed
	return cmd.Flags&flags == flags
}

// Slots returns the arguments by whose hash slots the clients of a cluster find the node.
func (cmd *Spec) Slots() Keys {
	if cmd.Channels.First != 0 {
		return cmd.Channels
	}
	return cmd.Keys
}

// AboutTable reports whether the command may touch any key of the table, because its keys
// are unknown before it runs.
func (cmd *Spec) AboutTable() bool {
	return !cmd.HasKeys() && cmd.Derived == nil && cmd.Flags&NoTable == 0
}

// Accepts reports whether n arguments fit the arity.
func (cmd *Spec) Accepts(n int) bool {
	if cmd.Arity < 0 {
		return n >= -cmd.Arity
	}
	return n == cmd.Arity
}

// Keys says which arguments are keys. The zero value means none.
type Keys struct {
	// First and Last are positions of arguments; the command's name has position 0. A
	// negative Last counts from the end: -1 is the last argument. Step is the distance
	// between keys.
	First, Last, Step int
	// Count is the position of the argument that says how many keys follow it; 0 if there
	// is no such argument.
	Count int
	// Find replaces the fields above if the positions depend on the arguments in another
	// way. It appends the positions of the keys to at.
	Find func(args [][]byte, at []int) []int
}

// movable reports whether the positions of keys depend on the arguments.
func (k Keys) movable() bool { return k.Find != nil || k.Count != 0 }

// counted appends to at the positions of the keys that follow the number of keys. If the
// number is wrong, counted appends nothing; the handler then replies the error.
func (k Keys) counted(args [][]byte, at []int) []int {
	if len(args) <= k.Count {
		return at
	}
	n, ok := resp.ParseInt(args[k.Count])
	if !ok || n < 0 || n > int64(len(args)-1-k.Count) {
		return at
	}
	for i := range int(n) {
		at = append(at, k.Count+1+i)
	}
	return at
}

// Positions appends to at the positions of the keys among args.
func (k Keys) Positions(args [][]byte, at []int) []int {
	if k.Find != nil {
		return k.Find(args, at)
	}
	if k.Count != 0 {
		return k.counted(args, at)
	}
	if k.First == 0 {
		return at
	}
	last := k.Last
	if last < 0 {
		last += len(args)
	}
	for i := k.First; i <= last && i < len(args); i += k.Step {
		at = append(at, i)
	}
	return at
}

// Many reports whether a command works key by key, so that a failure may leave a part of it
// done. A chain of limits is executed whole or not at all.
func (k Keys) Many(args [][]byte) bool {
	return !k.movable() && k.Last != k.First && len(args) > k.First+1
}

// help returns the HELP subcommand of a container.
func (cmd *Spec) help() Spec {
	return Spec{
		Name: "help", Arity: 2, Flags: Loading | Stale | Unpaused | NoTable, Categories: cmd.Categories,
		Group: cmd.Group, Complexity: "O(1)", Summary: "Returns helpful text about the different subcommands.",
		Handler: func(c *Call) { cmd.writeHelp(c.W) },
	}
}

// writeHelp replies a container's subcommands, each line a status as in Redis.
func (cmd *Spec) writeHelp(w *resp.Writer) {
	const indent = "    "
	lines := []string{cmd.Upper + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	if cmd.Handler != nil {
		lines = append(lines, "(no subcommand)", indent+cmd.Summary)
	}
	for i := range cmd.Subs {
		sub := &cmd.Subs[i]
		lines = append(lines, strings.TrimSpace(sub.Upper+" "+sub.Syntax), indent+sub.Summary)
	}
	w.Array(len(lines))
	for _, l := range lines {
		w.Simple(l)
	}
}
