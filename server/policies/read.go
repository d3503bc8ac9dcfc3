package policies

import (
	"fmt"
	"time"

	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// getPolicy handles RL.POLICY GET.
func (e *Editor) getPolicy(call *command.Call) {
	name := string(call.Args[2])
	st, ok := e.book.stored(name)
	switch args := call.Args[3:]; {
	case len(args) == 0:
	case len(args) == 2 && command.EqualFold(args[0], "version"):
		version, err := wire.ParseInteger(args[1])
		if err != nil {
			call.Error(err.Error())
			return
		}
		st, ok = e.book.versionOf(name, uint64(version))
	default:
		call.Error(command.ErrSyntax.Error())
		return
	}
	if !ok && e.book.trouble(name) != nil {
		call.Error(e.book.Missing(call.Args[2]))
		return
	}
	if !ok || st.Gone {
		call.W.Null()
		return
	}
	p := command.NewPairs(call.W)
	p.Str("name", name)
	st.write(p)
	p.Str("text", st.Text)
	p.Flush()
}

// write adds the fields of a record to a reply, without the text.
func (st *stored) write(p *command.Pairs) {
	p.Int("version", int64(st.Version))
	p.Int("revision", int64(st.Revision))
	p.Str("time", time.UnixMilli(st.At).UTC().Format(time.RFC3339))
	p.Str("author", st.Author)
	p.Str("file", st.File)
}

// listPolicies handles RL.POLICY LIST. It replies the names and versions of all policies,
// attributes and lists.
func (e *Editor) listPolicies(call *command.Call) {
	type line struct {
		name    string
		version uint64
	}
	var lines []line
	for _, name := range e.book.names() {
		if st, ok := e.book.head(name); ok && !st.Gone {
			lines = append(lines, line{name, st.Version})
		}
	}
	call.W.Array(len(lines))
	for _, l := range lines {
		p := command.NewPairs(call.W)
		p.Str("name", l.name)
		p.Int("version", int64(l.version))
		p.Flush()
	}
}

// history handles RL.POLICY HISTORY.
func (e *Editor) history(call *command.Call) {
	name := string(call.Args[2])
	st, ok := e.book.head(name)
	if !ok {
		call.W.Array(0)
		return
	}
	versions := []stored{st}
	for v := st.Version; v > 1 && len(versions) <= keptVersions; {
		v--
		if st, ok := e.book.head(historyRecord(name, v)); ok {
			versions = append(versions, st)
		}
	}
	call.W.Array(len(versions))
	for i := range versions {
		p := command.NewPairs(call.W)
		versions[i].write(p)
		p.Int("deleted", command.Truth(versions[i].Gone))
		p.Flush()
	}
}

// diff handles RL.POLICY DIFF.
func (e *Editor) diff(call *command.Call) {
	name := string(call.Args[2])
	var sides [2]stored
	if len(call.Args) > 5 {
		call.Error(command.ErrSyntax.Error())
		return
	}
	for i := range sides {
		if 3+i >= len(call.Args) {
			sides[i], _ = e.book.stored(name)
			continue
		}
		version, err := wire.ParseInteger(call.Args[3+i])
		if err != nil {
			call.Error(err.Error())
			return
		}
		var ok bool
		if sides[i], ok = e.book.versionOf(name, uint64(version)); !ok {
			call.Error(fmt.Sprintf("ERR version %d of %s is unknown or no longer kept, see RL.POLICY HISTORY", version, name))
			return
		}
	}
	size := len(sides[0].Text) + len(sides[1].Text)
	call.Host.Block(call, size, func(w *resp.Writer) {
		end, err := e.admit(size, !call.InExec)
		if err != nil {
			w.Error(err.Error())
			return
		}
		defer end()
		old, err := sides[0].parsed(name)
		if err != nil {
			w.Error("ERR " + oneLine(err.Error()))
			return
		}
		is, err := sides[1].parsed(name)
		if err != nil {
			w.Error("ERR " + oneLine(err.Error()))
			return
		}
		found := diff.Compare(old, is)
		w.Array(len(found))
		for i := range found {
			w.BulkString(found[i].String())
		}
	})
}
