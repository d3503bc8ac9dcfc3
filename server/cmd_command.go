package server

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

func commandCommands() []command {
	// Not within MULTI: what they write would be written on the loop.
	const long = flagNoMulti
	sub := func(name string, arity int, extra flag, syntax, summary string, handler func(*conn, [][]byte)) command {
		return command{
			name: name, arity: arity, flags: flagLoading | flagStale | extra, categories: catConnection, group: "server",
			complexity: "O(N) where N is the number of commands to look up", summary: summary, syntax: syntax, handler: handler,
		}
	}
	return []command{{
		name: "command", arity: -1, flags: flagLoading | flagStale | long, categories: catConnection, group: "server",
		complexity: "O(N) where N is the total number of commands", summary: "Returns detailed information about all commands.",
		handler: cmdCommand,
		subs: []command{
			sub("count", 2, 0, "", "Returns a count of commands.", cmdCommandCount),
			sub("docs", -2, long, "[command-name [command-name ...]]", "Returns documentary information about one, multiple or all commands.", cmdCommandDocs),
			sub("info", -2, long, "[command-name [command-name ...]]", "Returns information about one, multiple or all commands.", cmdCommandInfo),
			sub("list", -2, 0, "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", "Returns a list of command names.", cmdCommandList),
			sub("getkeys", -3, 0, "command [arg [arg ...]]", "Extracts the key names from an arbitrary command.", cmdCommandGetKeys),
		},
	}}
}

// maxNames bounds the names that one call asks about: what is told of each is
// much longer than the name.
const maxNames = 1024

const errNames = "ERR at most 1024 names in one call"

// cmdCommand, as COMMAND DOCS, writes a hundred kilobytes: a worker's task.
func cmdCommand(c *conn, _ [][]byte) { c.block(c.srv.table.writeInfos) }

func (t *table) writeInfos(w *resp.Writer) {
	w.Array(len(t.list))
	for _, cmd := range t.list {
		cmd.writeInfo(w)
	}
}

func cmdCommandCount(c *conn, _ [][]byte) { c.w.Int(int64(len(c.srv.table.list))) }

// byFullName finds "client" and "client|list".
func (t *table) byFullName(name []byte) *command {
	first, second, isSub := strings.Cut(string(name), "|")
	cmd := lookup(t.byName, []byte(first))
	if cmd == nil || !isSub {
		return cmd
	}
	return lookup(cmd.bySub, []byte(second))
}

func cmdCommandInfo(c *conn, args [][]byte) {
	if len(args) == 2 {
		cmdCommand(c, args)
		return
	}
	names := args[2:]
	if len(names) > maxNames {
		c.error(errNames)
		return
	}
	list := make([]*command, len(names))
	for i, name := range names {
		list[i] = c.srv.table.byFullName(name)
	}
	c.block(func(w *resp.Writer) {
		w.Array(len(list))
		for _, cmd := range list {
			if cmd != nil {
				cmd.writeInfo(w)
			} else {
				w.NullArray()
			}
		}
	})
}

// writeInfo replies a command's entry of COMMAND INFO: name, arity, flags,
// first key, last key, step, ACL categories, tips, key specifications,
// subcommands.
func (cmd *command) writeInfo(w *resp.Writer) {
	w.Array(10)
	w.BulkString(cmd.full)
	w.Int(int64(cmd.arity))
	flags := cmd.flags
	w.Set(bits.OnesCount32(uint32(flags & publicFlags)))
	for _, f := range flagNames {
		if flags&f.flag != 0 {
			w.Simple(f.name)
		}
	}
	w.Int(int64(cmd.keys.first))
	w.Int(int64(cmd.keys.last))
	w.Int(int64(cmd.keys.step))
	w.Set(bits.OnesCount32(uint32(cmd.categories)))
	for i, name := range categoryNames {
		if cmd.categories&(1<<i) != 0 {
			w.Simple("@" + name)
		}
	}
	cmd.writeTips(w)
	cmd.writeKeySpecs(w)
	w.Array(len(cmd.subs))
	for i := range cmd.subs {
		cmd.subs[i].writeInfo(w)
	}
}

// writeTips replies Redis's tips for clients: what Headgate adds tells which
// node of a cluster answers.
func (cmd *command) writeTips(w *resp.Writer) {
	if cmd.flags&flagLeader == 0 {
		w.Array(0)
		return
	}
	w.Array(1)
	w.BulkString("answered_by:leader")
}

// publicFlags are those that flagNames names.
const publicFlags = flagImmediate - 1

// writeKeySpecs replies Redis 7's description of where the keys are.
func (cmd *command) writeKeySpecs(w *resp.Writer) {
	k := cmd.keys
	if !cmd.hasKeys() {
		w.Array(0)
		return
	}
	access := []string{"RO", "ACCESS"}
	if cmd.flags&flagWrite != 0 {
		access = []string{"RW", "ACCESS", "UPDATE"}
	}
	if k.find != nil {
		access = append(access, "incomplete")
	}
	w.Array(1)
	w.Map(3)
	w.BulkString("flags")
	w.Set(len(access))
	for _, a := range access {
		w.Simple(a)
	}
	w.BulkString("begin_search")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("index")
	w.BulkString("spec")
	w.Map(1)
	w.BulkString("index")
	w.Int(int64(max(k.first, 1)))
	last := k.last
	if last > 0 {
		last -= k.first
	}
	w.BulkString("find_keys")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("range")
	w.BulkString("spec")
	w.Map(3)
	w.BulkString("lastkey")
	w.Int(int64(last))
	w.BulkString("keystep")
	w.Int(int64(max(k.step, 1)))
	w.BulkString("limit")
	w.Int(0)
}

func cmdCommandDocs(c *conn, args [][]byte) {
	var list []*command
	if len(args) == 2 {
		list = c.srv.table.list
	}
	if len(args)-2 > maxNames {
		c.error(errNames)
		return
	}
	for _, a := range args[2:] {
		if cmd := c.srv.table.byFullName(a); cmd != nil {
			list = append(list, cmd)
		}
	}
	c.block(func(w *resp.Writer) {
		w.Map(len(list))
		for _, cmd := range list {
			w.BulkString(cmd.full)
			cmd.writeDocs(w)
		}
	})
}

// sinceVersion is the version of Headgate that brought the commands there are.
const sinceVersion = "1.0.0"

func (cmd *command) writeDocs(w *resp.Writer) {
	fields := 4
	if len(cmd.docs) > 0 {
		fields++
	}
	if len(cmd.subs) > 0 {
		fields++
	}
	w.Map(fields)
	for _, f := range [][2]string{{"summary", cmd.summary}, {"since", sinceVersion}, {"group", cmd.group}, {"complexity", cmd.complexity}} {
		w.BulkString(f[0])
		w.BulkString(f[1])
	}
	if len(cmd.docs) > 0 {
		w.BulkString("arguments")
		w.Array(len(cmd.docs))
		for i := range cmd.docs {
			cmd.docs[i].write(w)
		}
	}
	if len(cmd.subs) > 0 {
		w.BulkString("subcommands")
		w.Map(len(cmd.subs))
		for i := range cmd.subs {
			w.BulkString(cmd.subs[i].full)
			cmd.subs[i].writeDocs(w)
		}
	}
}

func cmdCommandList(c *conn, args [][]byte) {
	keep := func(*command) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 5 && equalFold(args[2], "filterby") && equalFold(args[3], "aclcat"):
		i := slices.Index(categoryNames, strings.ToLower(string(clip(args[4], 64))))
		keep = func(cmd *command) bool { return i >= 0 && cmd.categories&(1<<i) != 0 }
	case len(args) == 5 && equalFold(args[2], "filterby") && equalFold(args[3], "pattern"):
		pattern, ok := c.pattern(bytes.ToLower(args[4]))
		if !ok {
			return
		}
		keep = func(cmd *command) bool { return pattern.Match(cmd.full) }
	case len(args) == 5 && equalFold(args[2], "filterby") && equalFold(args[3], "module"):
		keep = func(*command) bool { return false }
	default:
		c.error(errSyntax)
		return
	}
	var names []string
	for _, cmd := range c.srv.table.list {
		if keep(cmd) {
			names = append(names, cmd.full)
		}
		for i := range cmd.subs {
			if len(args) > 2 && keep(&cmd.subs[i]) {
				names = append(names, cmd.subs[i].full)
			}
		}
	}
	c.w.Array(len(names))
	for _, n := range names {
		c.w.BulkString(n)
	}
}

func cmdCommandGetKeys(c *conn, args [][]byte) {
	args = args[2:]
	cmd := c.srv.table.find(args)
	switch {
	case cmd == nil:
		c.error("ERR Invalid command specified")
		return
	case !cmd.hasKeys():
		c.error("ERR The command has no key arguments")
		return
	case !cmd.accepts(len(args)):
		c.error("ERR Invalid number of arguments specified for command")
		return
	}
	at := cmd.keys.positions(args, nil)
	if len(at) == 0 {
		c.error("ERR The command has no key arguments")
		return
	}
	c.w.Array(len(at))
	for _, i := range at {
		c.w.Bulk(args[i])
	}
}
