package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// # How to add a command
//
// Write a file with a function that returns the commands as a plain slice, and
// add that function to commandLists:
//
//	func limitsCommands() []command {
//		return []command{{
//			name: "cl.throttle", arity: -5, flags: flagWrite | flagDenyOOM | flagFast | flagLimit,
//			keys: keySpec{first: 1, last: 1, step: 1}, categories: catLimiter,
//			group: "limiter", complexity: "O(1)",
//			summary: "…", syntax: "key max-burst count period [quantity]",
//			handler: cmdThrottle,
//		}}
//	}
//
//	func cmdThrottle(c *conn, args [][]byte) {
//		d, err := c.sess.Decide(c.now(), args[1], limit, cost, &options)
//		if err != nil {
//			c.error("ERR " + err.Error())
//			return
//		}
//		c.w.Array(5)
//		c.w.Int(…)
//	}
//
// The table has already checked the arity. A handler writes exactly one reply
// to c.w. args[0] is the command's name as the client wrote it (args[1] the
// subcommand's); all arguments are views that die with the handler's return.
// It runs on the connection's driver thread, so it must take well under
// 100 µs; what may take longer copies its arguments and calls c.block. A reply
// that must wait for a commit calls c.hold(ticket). c.now() is the engine's
// time of this batch; a handler reads no clock.

// commandLists are the commands of the server, a list per file.
func commandLists() [][]command {
	return [][]command{
		connectionCommands(),
		clientCommands(),
		commandCommands(),
		transactionCommands(),
		pubsubCommands(),
		serverCommands(),
		configCommands(),
		aclCommands(),
		latencyCommands(),
		keyspaceCommands(),
		compatCommands(),
		nativeCommands(),
		slotsCommands(),
		counterCommands(),
		inspectCommands(),
		replicationCommands(),
		clusterCommands(),
		sentinelCommands(),
		localCommands(),
	}
}

// flag is a property of a command that the server or its clients act on.
type flag uint32

const (
	flagWrite       flag = 1 << iota // may change a key
	flagReadonly                     // reads keys and changes none
	flagDenyOOM                      // may need memory for a new key
	flagAdmin                        // for operators
	flagPubSub                       // of the publish/subscribe family
	flagNoScript                     // not from scripts
	flagLoading                      // answered while state is being loaded
	flagStale                        // answered without a leader
	flagFast                         // O(1) or O(log n): not timed one by one
	flagNoAuth                       // allowed before authentication
	flagNoMulti                      // not allowed inside MULTI
	flagSkipMonitor                  // not shown by MONITOR

	flagImmediate  // runs inside MULTI instead of being queued
	flagSubscribed // allowed while a RESP2 connection is subscribed
	flagUnpaused   // does not wait for the end of CLIENT PAUSE
	flagNoTable    // needs no lock of a shard: may run in an EXEC that holds some
	flagExec       // EXEC
	flagWait       // WAIT
	flagLimit      // asks a limit: the failure policy may answer
	flagOwnConn    // acts on its connection: not forwarded, where it would act on another
	flagLocal      // each node of a cluster answers for itself, though it is about keys
	flagPeers      // only nodes of the cluster may send it
	flagLong       // may take seconds: reads a whole table, or any number of keys
	flagLeader     // only the leader answers: set for everything else about keys
	flagForwarded  // other nodes may send it for their clients: set for what has flagLeader and not flagOwnConn
)

// flagNames are the flags that clients are told, in Redis's words.
var flagNames = []struct {
	flag flag
	name string
}{
	{flagWrite, "write"}, {flagReadonly, "readonly"}, {flagDenyOOM, "denyoom"}, {flagAdmin, "admin"},
	{flagPubSub, "pubsub"}, {flagNoScript, "noscript"}, {flagLoading, "loading"}, {flagStale, "stale"},
	{flagSkipMonitor, "skip_monitor"}, {flagFast, "fast"}, {flagNoAuth, "no_auth"}, {flagNoMulti, "no_multi"},
}

// category is a set of ACL categories. Those that follow from flags (read,
// write, admin, dangerous, pubsub, fast, slow) are added by the table.
type category uint32

const (
	catKeyspace category = 1 << iota
	catRead
	catWrite
	catString
	catPubSub
	catAdmin
	catFast
	catSlow
	catBlocking
	catDangerous
	catConnection
	catTransaction
	catLimiter
)

// categoryNames are in the order of the bits.
var categoryNames = []string{
	"keyspace", "read", "write", "string", "pubsub", "admin", "fast", "slow", "blocking", "dangerous",
	"connection", "transaction", "limiter",
}

// keySpec says which arguments are keys. The zero value means none.
type keySpec struct {
	// first and last are positions, the name being 0; a negative last
	// counts from the end (-1 is the last argument). step is the distance
	// between keys.
	first, last, step int
	// find replaces them when positions depend on the arguments: it appends
	// the positions of the keys to at.
	find func(args [][]byte, at []int) []int
}

// positions appends the positions of the keys of args to at.
func (k keySpec) positions(args [][]byte, at []int) []int {
	if k.find != nil {
		return k.find(args, at)
	}
	if k.first == 0 {
		return at
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	for i := k.first; i <= last && i < len(args); i += k.step {
		at = append(at, i)
	}
	return at
}

// command describes one command or subcommand.
type command struct {
	name string // lower case
	// arity is the number of arguments, the name (and the subcommand's)
	// included; -n means at least n.
	arity      int
	flags      flag
	keys       keySpec
	categories category

	// For COMMAND DOCS. syntax is what follows the name, in the notation of
	// redis.io: [optional], <one | another>, "name [name ...]", TOKEN value.
	group, complexity, summary, syntax string

	// handler runs the command; of a container, the container's name alone,
	// and nil if that is an error (its arity then is -2). The first argument
	// of a container names one of subs, to which newTable adds HELP.
	handler func(c *conn, args [][]byte)
	subs    []command

	// secrets appends to at the positions of arguments that MONITOR and
	// SLOWLOG must not show. It is nil if there are none.
	secrets func(args [][]byte, at []int) []int

	// Set by newTable.
	sub   bool   // of a container
	full  string // "client|setname"
	upper string // "CLIENT", for error texts
	index int    // position in counters
	docs  []argument
	bySub map[string]*command
}

// public returns arguments as MONITOR and SLOWLOG may show them.
func (cmd *command) public(args [][]byte) [][]byte {
	if cmd.secrets == nil {
		return args
	}
	shown := slices.Clone(args)
	for _, i := range cmd.secrets(args, nil) {
		shown[i] = []byte("(redacted)")
	}
	return shown
}

// hasKeys reports whether any argument can be a key.
func (cmd *command) hasKeys() bool { return cmd.keys.first != 0 || cmd.keys.find != nil }

// accepts reports whether n arguments fit the arity.
func (cmd *command) accepts(n int) bool {
	if cmd.arity < 0 {
		return n >= -cmd.arity
	}
	return n == cmd.arity
}

// maxName is longer than every command's name, so that a longer word is
// unknown without looking.
const maxName = 32

// table finds commands by name. It is immutable.
type table struct {
	byName map[string]*command
	list   []*command // in order of registration, containers without their subcommands
	count  int        // of indexes, subcommands included
}

func newTable(lists ...[]command) (*table, error) {
	t := &table{byName: make(map[string]*command)}
	for _, list := range lists {
		for i := range list {
			cmd := &list[i]
			if err := t.add(cmd, nil); err != nil {
				return nil, err
			}
			t.list = append(t.list, cmd)
		}
	}
	return t, nil
}

// forwarded returns the part of the table that other nodes may send: what a
// follower forwards, and nothing that each node answers for itself, such as
// CONFIG, SHUTDOWN or CLIENT KILL.
func (t *table) forwarded() *table {
	f := &table{byName: make(map[string]*command), count: t.count}
	for _, cmd := range t.list {
		if cmd.bySub != nil {
			part := *cmd
			part.bySub = make(map[string]*command)
			for name, sub := range cmd.bySub {
				if sub.flags&flagForwarded != 0 {
					part.bySub[name] = sub
				}
			}
			cmd = &part
		}
		if cmd.flags&flagForwarded != 0 || len(cmd.bySub) > 0 {
			f.byName[cmd.name] = cmd
			f.list = append(f.list, cmd)
		}
	}
	return f
}

// each calls fn with every command and subcommand.
func (t *table) each(fn func(*command)) {
	for _, cmd := range t.list {
		fn(cmd)
		for i := range cmd.subs {
			fn(&cmd.subs[i])
		}
	}
}

// add completes cmd and its subcommands.
func (t *table) add(cmd, parent *command) error {
	names := t.byName
	cmd.full = cmd.name
	if parent != nil {
		names = parent.bySub
		cmd.sub = true
		cmd.full = parent.name + "|" + cmd.name
	}
	cmd.upper = strings.ToUpper(cmd.name)
	if len(cmd.name) > maxName || cmd.name != strings.ToLower(cmd.name) || names[cmd.name] != nil {
		return fmt.Errorf("command %q: name is too long, not lower case, or taken", cmd.full)
	}
	if cmd.handler == nil && len(cmd.subs) == 0 {
		return fmt.Errorf("command %q: needs a handler or subcommands", cmd.full)
	}
	names[cmd.name] = cmd
	cmd.index = t.count
	t.count++
	if len(cmd.subs) > 0 {
		cmd.subs = append(cmd.subs, cmd.help())
		cmd.bySub = make(map[string]*command, len(cmd.subs))
	}
	cmd.categories |= impliedCategories(cmd.flags)
	if cmd.flags&flagLocal == 0 && (cmd.hasKeys() || cmd.flags&(flagWrite|flagReadonly) != 0) {
		cmd.flags |= flagLeader
	}
	if cmd.flags&flagLeader != 0 && cmd.flags&flagOwnConn == 0 {
		cmd.flags |= flagForwarded
	}
	var err error
	if cmd.docs, err = parseSyntax(cmd.syntax); err != nil {
		return fmt.Errorf("command %q: syntax: %w", cmd.full, err)
	}
	for i := range cmd.subs {
		if err := t.add(&cmd.subs[i], cmd); err != nil {
			return err
		}
	}
	return nil
}

// impliedCategories are the categories that follow from flags, as in Redis.
func impliedCategories(f flag) category {
	var c category
	if f&flagWrite != 0 {
		c |= catWrite
	}
	if f&flagReadonly != 0 {
		c |= catRead
	}
	if f&flagAdmin != 0 {
		c |= catAdmin | catDangerous
	}
	if f&flagPubSub != 0 {
		c |= catPubSub
	}
	if f&flagFast != 0 {
		c |= catFast
	} else {
		c |= catSlow
	}
	return c
}

// lookup finds a name in any case, without allocating.
func lookup(names map[string]*command, name []byte) *command {
	var lower [maxName]byte
	if len(name) > maxName {
		return nil
	}
	for i, b := range name {
		if b-'A' <= 'Z'-'A' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return names[string(lower[:len(name)])]
}

// find returns the command of args, its subcommand if it is a container, and
// nil when there is none; notFound says why.
func (t *table) find(args [][]byte) *command {
	cmd := lookup(t.byName, args[0])
	if cmd == nil || cmd.bySub == nil || len(args) < 2 {
		return cmd
	}
	return lookup(cmd.bySub, args[1])
}

// notFound is the error for args that find knows nothing about, in Redis's
// words.
func (t *table) notFound(args [][]byte) string {
	if cmd := lookup(t.byName, args[0]); cmd != nil {
		return fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", clip(args[1], 128), cmd.upper)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%s', with args beginning with: ", clip(args[0], 128))
	const most = 128
	quoted := 0
	for _, a := range args[1:] {
		if quoted >= most {
			break
		}
		a = clip(a, most-quoted)
		fmt.Fprintf(&b, "'%s' ", a)
		quoted += len(a) + 3
	}
	return b.String()
}

func clip(b []byte, n int) []byte { return b[:min(len(b), n)] }

// wrongArity is the error for a number of arguments that cmd does not take.
func wrongArity(cmd *command) string {
	return "ERR wrong number of arguments for '" + cmd.full + "' command"
}

// help returns the HELP subcommand of a container.
func (cmd *command) help() command {
	return command{
		name: "help", arity: 2, flags: flagLoading | flagStale | flagUnpaused | flagNoTable, categories: cmd.categories,
		group: cmd.group, complexity: "O(1)", summary: "Returns helpful text about the different subcommands.",
		handler: func(c *conn, _ [][]byte) { cmd.writeHelp(c.w) },
	}
}

// writeHelp replies a container's subcommands, each line a status as in Redis.
func (cmd *command) writeHelp(w *resp.Writer) {
	const indent = "    "
	lines := []string{cmd.upper + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	if cmd.handler != nil {
		lines = append(lines, "(no subcommand)", indent+cmd.summary)
	}
	for i := range cmd.subs {
		sub := &cmd.subs[i]
		lines = append(lines, strings.TrimSpace(sub.upper+" "+sub.syntax), indent+sub.summary)
	}
	w.Array(len(lines))
	for _, l := range lines {
		w.Simple(l)
	}
}
