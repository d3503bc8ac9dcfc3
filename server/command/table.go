package command

import (
	"fmt"
	"strings"
)

// maxName is longer than every command's name. So Find need not look up a longer word.
const maxName = 32

// Table finds commands by name. It is immutable.
type Table struct {
	byName map[string]*Spec
	list   []*Spec // in the order of registration; containers without their subcommands
	count  int     // number of indexes, including those of subcommands
}

func NewTable(lists ...[]Spec) (*Table, error) {
	t := &Table{byName: make(map[string]*Spec)}
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

// Forwarded returns the part of the table that other nodes may send, because a follower
// forwards these commands. Commands that each node answers itself, such as CONFIG, SHUTDOWN
// or CLIENT KILL, are not in this part.
func (t *Table) Forwarded() *Table {
	return t.part(func(cmd *Spec) bool { return cmd.Flags&Forwarded != 0 })
}

// Unconnected returns the part of the table without commands that act on their connection.
func (t *Table) Unconnected() *Table {
	return t.part(func(cmd *Spec) bool { return cmd.Flags&NeedsConn == 0 })
}

// part returns the commands and subcommands for which keep returns true.
func (t *Table) part(keep func(*Spec) bool) *Table {
	f := &Table{byName: make(map[string]*Spec), count: t.count}
	for _, cmd := range t.list {
		if cmd.bySub != nil {
			part := *cmd
			part.bySub = make(map[string]*Spec)
			for name, sub := range cmd.bySub {
				if keep(sub) {
					part.bySub[name] = sub
				}
			}
			cmd = &part
		}
		if cmd.bySub == nil && keep(cmd) || len(cmd.bySub) > 0 {
			f.byName[cmd.Name] = cmd
			f.list = append(f.list, cmd)
		}
	}
	return f
}

// Each calls fn with every command and subcommand.
func (t *Table) Each(fn func(*Spec)) {
	for _, cmd := range t.list {
		fn(cmd)
		for i := range cmd.Subs {
			fn(&cmd.Subs[i])
		}
	}
}

// add completes cmd and its subcommands.
func (t *Table) add(cmd, parent *Spec) error {
	names := t.byName
	cmd.Full = cmd.Name
	if parent != nil {
		names = parent.bySub
		cmd.sub = true
		cmd.Full = parent.Name + "|" + cmd.Name
	}
	cmd.Upper = strings.ToUpper(cmd.Name)
	if len(cmd.Name) > maxName || cmd.Name != strings.ToLower(cmd.Name) || names[cmd.Name] != nil {
		return fmt.Errorf("command %q: name is too long, not lower case, or taken", cmd.Full)
	}
	if cmd.Handler == nil && len(cmd.Subs) == 0 {
		return fmt.Errorf("command %q: needs a handler or subcommands", cmd.Full)
	}
	if (cmd.Flags&Guarded != 0 || cmd.Guards != nil) && cmd.Flags&(Fast|Script) != 0 {
		return fmt.Errorf("command %q: a guarded command cannot be Fast or Script, which skip the check of users", cmd.Full)
	}
	names[cmd.Name] = cmd
	cmd.Index = t.count
	t.count++
	if len(cmd.Subs) > 0 {
		cmd.Subs = append(cmd.Subs, cmd.help())
		cmd.bySub = make(map[string]*Spec, len(cmd.Subs))
	}
	cmd.Categories |= impliedCategories(cmd.Flags)
	if cmd.Flags&Local == 0 && (cmd.HasKeys() || cmd.Flags&(Write|Readonly) != 0) {
		cmd.Flags |= Leader
	}
	if cmd.Flags&(OwnConn|Peers) != 0 {
		cmd.Flags |= NeedsConn
	}
	if cmd.Flags&Leader != 0 && cmd.Flags&OwnConn == 0 {
		cmd.Flags |= Forwarded
	}
	var err error
	if cmd.docs, err = parseSyntax(cmd.Syntax); err != nil {
		return fmt.Errorf("command %q: syntax: %w", cmd.Full, err)
	}
	for i := range cmd.Subs {
		if err := t.add(&cmd.Subs[i], cmd); err != nil {
			return err
		}
	}
	return nil
}

// lookup finds a name in any case, without allocating.
func lookup(names map[string]*Spec, name []byte) *Spec {
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

// Find returns the command that args call; if it is a container, the subcommand. It returns
// nil for an unknown command, and NotFound then returns the error.
func (t *Table) Find(args [][]byte) *Spec {
	cmd := lookup(t.byName, args[0])
	if cmd == nil || cmd.bySub == nil || len(args) < 2 {
		return cmd
	}
	return lookup(cmd.bySub, args[1])
}

// NotFound returns the error for args whose command Find does not know, in Redis's words.
func (t *Table) NotFound(args [][]byte) string {
	if cmd := lookup(t.byName, args[0]); cmd != nil {
		return fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", Clip(args[1], 128), cmd.Upper)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%s', with args beginning with: ", Clip(args[0], 128))
	const most = 128
	quoted := 0
	for _, a := range args[1:] {
		if quoted >= most {
			break
		}
		a = Clip(a, most-quoted)
		fmt.Fprintf(&b, "'%s' ", a)
		quoted += len(a) + 3
	}
	return b.String()
}

// WrongArity returns the error for a wrong number of arguments to cmd.
func WrongArity(cmd *Spec) string {
	return "ERR wrong number of arguments for '" + cmd.Full + "' command"
}

// List returns the commands in the order of registration, containers without their
// subcommands. The caller must not change the list.
func (t *Table) List() []*Spec { return t.list }

// Count returns the number of indexes of commands and subcommands (Spec.Index is below it).
func (t *Table) Count() int { return t.count }

// Alone reports whether the first argument of a call is enough to find the command: it is
// neither a container nor a subcommand.
func (cmd *Spec) Alone() bool { return cmd.bySub == nil && !cmd.sub }
