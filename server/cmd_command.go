package server

import (
	"bytes"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

func commandCommands() []command.Spec {
	// These are not allowed in MULTI, because their long replies would be written on the
	// loop.
	const long = command.NoMulti
	sub := func(name string, arity int, extra command.Flag, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: command.Loading | command.Stale | extra, Categories: command.CatConnection, Group: "server",
			Complexity: "O(N) where N is the number of commands to look up", Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return []command.Spec{{
		Name: "command", Arity: -1, Flags: command.Loading | command.Stale | long, Categories: command.CatConnection, Group: "server",
		Complexity: "O(N) where N is the total number of commands", Summary: "Returns detailed information about all commands.",
		Handler: onConn(cmdCommand),
		Subs: []command.Spec{
			sub("count", 2, 0, "", "Returns a count of commands.", onConn(cmdCommandCount)),
			sub("docs", -2, long, "[command-name [command-name ...]]", "Returns documentary information about one, multiple or all commands.", onConn(cmdCommandDocs)),
			sub("info", -2, long, "[command-name [command-name ...]]", "Returns information about one, multiple or all commands.", onConn(cmdCommandInfo)),
			sub("list", -2, 0, "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", "Returns a list of command names.", onConn(cmdCommandList)),
			sub("getkeysandflags", -3, 0, "command [arg [arg ...]]", "Extracts the key names and access flags for an arbitrary command.", onConn(cmdCommandGetKeysAndFlags)),
			sub("getkeys", -3, 0, "command [arg [arg ...]]", "Extracts the key names from an arbitrary command.", onConn(cmdCommandGetKeys)),
		},
	}}
}

// cmdCommand, like COMMAND DOCS, writes a hundred kilobytes. So both run on a worker.
func cmdCommand(c *conn, _ [][]byte) { c.block(c.srv.table.WriteInfos) }

func cmdCommandCount(c *conn, _ [][]byte) { c.w.Int(int64(len(c.srv.table.List()))) }

func cmdCommandInfo(c *conn, args [][]byte) {
	if len(args) == 2 {
		cmdCommand(c, args)
		return
	}
	names := args[2:]
	if len(names) > command.MaxNames {
		c.error(command.ErrNames)
		return
	}
	list := make([]*command.Spec, len(names))
	for i, name := range names {
		list[i] = c.srv.table.ByFullName(name)
	}
	c.block(func(w *resp.Writer) {
		w.Array(len(list))
		told := make(map[*command.Spec]bool) // list each command with subcommands once, because these are many
		for _, cmd := range list {
			if cmd == nil {
				w.Null()
				continue
			}
			cmd.WriteInfo(w, !told[cmd])
			told[cmd] = true
		}
	})
}

func cmdCommandDocs(c *conn, args [][]byte) {
	var list []*command.Spec
	if len(args) == 2 {
		list = c.srv.table.List()
	}
	if len(args)-2 > command.MaxNames {
		c.error(command.ErrNames)
		return
	}
	list = append(list, c.srv.named(args[2:])...)
	c.block(func(w *resp.Writer) {
		w.Map(len(list))
		for _, cmd := range list {
			w.BulkString(cmd.Full)
			cmd.WriteDocs(w)
		}
	})
}

// named returns the commands with the given names. It returns each command once, because a
// reply that is a map has one entry for each.
func (s *Server) named(names [][]byte) []*command.Spec {
	var list []*command.Spec
	seen := make(map[*command.Spec]bool)
	for _, name := range names {
		if cmd := s.table.ByFullName(name); cmd != nil && !seen[cmd] {
			seen[cmd] = true
			list = append(list, cmd)
		}
	}
	return list
}

func cmdCommandList(c *conn, args [][]byte) {
	keep := func(*command.Spec) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 5 && command.EqualFold(args[2], "filterby") && command.EqualFold(args[3], "aclcat"):
		category := command.CategoryNamed(strings.ToLower(string(command.Clip(args[4], 64))))
		keep = func(cmd *command.Spec) bool { return cmd.Categories&category != 0 }
	case len(args) == 5 && command.EqualFold(args[2], "filterby") && command.EqualFold(args[3], "pattern"):
		pattern, ok := c.pattern(bytes.ToLower(args[4]))
		if !ok {
			return
		}
		keep = func(cmd *command.Spec) bool { return pattern.Match(cmd.Full) }
	case len(args) == 5 && command.EqualFold(args[2], "filterby") && command.EqualFold(args[3], "module"):
		keep = func(*command.Spec) bool { return false }
	default:
		c.error(errSyntax)
		return
	}
	var names []string
	for _, cmd := range c.srv.table.List() {
		if keep(cmd) {
			names = append(names, cmd.Full)
		}
		for i := range cmd.Subs {
			if keep(&cmd.Subs[i]) {
				names = append(names, cmd.Subs[i].Full)
			}
		}
	}
	c.w.Array(len(names))
	for _, n := range names {
		c.w.BulkString(n)
	}
}

func cmdCommandGetKeys(c *conn, args [][]byte) { c.getKeys(args[2:], nil) }

func cmdCommandGetKeysAndFlags(c *conn, args [][]byte) {
	c.getKeys(args[2:], func(cmd *command.Spec) { cmd.WriteAccess(c.w) })
}

// getKeys replies the keys among args. If flags is not nil, getKeys calls it for each key,
// to write the key's flags.
func (c *conn) getKeys(args [][]byte, flags func(cmd *command.Spec)) {
	cmd := c.srv.table.Find(args)
	switch {
	case cmd == nil:
		c.error("ERR Invalid command specified")
		return
	case !cmd.HasKeys():
		c.error("ERR The command has no key arguments")
		return
	case !cmd.Accepts(len(args)):
		c.error("ERR Invalid number of arguments specified for command")
		return
	}
	at := cmd.Keys.Positions(args, nil)
	if len(at) == 0 && cmd.Flags&command.Script == 0 {
		c.error("ERR The command has no key arguments")
		return
	}
	c.w.Array(len(at))
	for _, i := range at {
		if flags != nil {
			c.w.Array(2)
		}
		c.w.Bulk(args[i])
		if flags != nil {
			flags(cmd)
		}
	}
}

// pattern compiles a pattern, or replies an error.
func (c *conn) pattern(b []byte) (*glob.Pattern, bool) {
	p, err := glob.Compile(string(b))
	if err != nil {
		c.error(command.EngineError(err).Error())
		return nil, false
	}
	return p, true
}
