package command

import (
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// Spec describes one command or subcommand.
type Spec struct {
	Name string // lower case
	// Arity is the number of arguments, including the name and the subcommand's; -n means
	// at least n.
	Arity      int
	Flags      Flag
	Keys       Keys
	Categories Category
	// Channels are arguments that are not keys. Clients of a cluster hash them like keys
	// to find the node.
	Channels Keys

	// Derived returns the keys of database 0 that the command touches at present and that
	// are not arguments; nil if it never has any. A step that isolates the command's keys
	// isolates these too.
	Derived func(args [][]byte, now int64) [][]byte

	// Ahead prepares a command of a pipeline before the first of them runs. It finds the
	// keys that the command will look up, and prefetches them. The Handler, which gets the
	// same args in the same Round of the call, may use what Ahead leaves in the call's
	// Memory. Ahead replies and changes nothing. Ahead is nil for commands whose keys are
	// arguments.
	Ahead func(call *Call, args [][]byte)

	// Headless returns how a call is answered without a leader. It is set for every
	// command with the flag Limit, and nil for all others.
	Headless func(args [][]byte) Headless

	// Sets is set for a command that sets its first argument to a value, whatever value
	// the key had before. It reports whether the call leaves an existing value.
	Sets func(args [][]byte) (onlyNew bool)

	// For COMMAND DOCS. Syntax is the part after the name, in the notation of redis.io:
	// [optional], <one | another>, "name [name ...]", TOKEN value.
	Group, Complexity, Summary, Syntax string

	// Handler runs the command. For a container it runs the container's name without a
	// subcommand. If the name alone is an error, Handler is nil and the arity is -2. The
	// first argument of a container names one of Subs. NewTable adds HELP to Subs.
	Handler Handler
	Subs    []Spec

	// Secrets appends to at the positions of arguments that MONITOR and SLOWLOG must not
	// show. nil means none.
	Secrets func(args [][]byte, at []int) []int

	// Guards reports whether a call with these arguments is only for the user admin. With
	// the flag Guarded, all calls are only for admin. If Guards is nil, the arguments do
	// not matter.
	Guards func(args [][]byte) bool

	// Set by NewTable.
	sub   bool   // of a container
	Full  string // "client|setname"
	Upper string // "CLIENT", for error texts
	Index int    // position in counters
	docs  []argument
	bySub map[string]*Spec
}

// Redacted replaces arguments in Public that must not be shown.
const Redacted = "(redacted)"

// Public returns arguments as MONITOR, SLOWLOG and the decision log may show them.
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

// ForAdmin reports whether a call with these arguments is only for the user admin.
func (cmd *Spec) ForAdmin(args [][]byte) bool {
	return cmd.Flags&Guarded != 0 || cmd.Guards != nil && cmd.Guards(args)
}

// HasKeys reports whether any argument can be a key.
func (cmd *Spec) HasKeys() bool { return cmd.Keys.First != 0 || cmd.Keys.movable() }

// Confirms reports whether the command begins or ends subscriptions.
func (cmd *Spec) Confirms() bool {
	const flags = PubSub | Subscribed
	return cmd.Flags&flags == flags
}

// Slots returns the arguments whose slots tell clients of a cluster which node to ask.
func (cmd *Spec) Slots() Keys {
	if cmd.Channels.First != 0 {
		return cmd.Channels
	}
	return cmd.Keys
}

// AboutTable reports whether the command may touch the whole table: its keys are unknown
// before it runs.
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
	// First and Last are positions, the name being 0; a negative Last counts
	// from the end (-1 is the last argument). Step is the distance between keys.
	First, Last, Step int
	// Count, if not 0, is the position of the argument with the number of keys. The keys
	// follow it.
	Count int
	// Find replaces the fields above if positions depend on the arguments in another way.
	// It appends the positions of the keys to at.
	Find func(args [][]byte, at []int) []int
}

// movable reports whether the positions of keys depend on the arguments.
func (k Keys) movable() bool { return k.Find != nil || k.Count != 0 }

// counted appends the positions of the keys that follow their number. If the number is
// wrong, counted appends nothing, and the handler replies the error.
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

// Positions appends the positions of the keys of args to at.
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

// Many reports whether a command executes key by key, so that only a part of it may be
// executed. A chain is executed whole or not at all.
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
