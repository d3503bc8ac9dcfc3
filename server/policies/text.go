package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/limits/wire"
)

// checkText replies the errors of a file, one per line. It replies an empty list if the
// file is valid. Only a real change shows whether the text fits the existing policies.
func (e *Editor) checkText(call *command.Call) {
	text := append([]byte(nil), call.Args[2]...)
	call.Host.Block(call, len(text), func(w *resp.Writer) {
		end, err := e.admit(len(text), true)
		if err != nil {
			w.Error(err.Error())
			return
		}
		defer end()
		records, err := grammar.ParseFile("", text)
		var errs *policy.Errors
		if err != nil && !errors.As(err, &errs) {
			w.Error("ERR " + oneLine(err.Error()))
			return
		}
		var lines []string
		if errs != nil {
			for _, e := range errs.List {
				lines = append(lines, e.Error())
			}
		}
		shared := e.book.Set().Attributes()
		if i := slices.IndexFunc(records, func(r *policy.Record) bool { return r.Kind == policy.AttributesRecord }); i >= 0 {
			shared = records[i]
		}
		for _, rec := range records {
			lines = append(lines, e.book.warnings(rec, shared)...)
		}
		w.Array(len(lines))
		for _, l := range lines {
			w.BulkString(l)
		}
	})
}

// setPolicy handles RL.POLICY SET. It replies the version.
func (e *Editor) setPolicy(call *command.Call) {
	last := len(call.Args) - 1
	opts, err := parseChange(call.Args[3:last], withIf|withText)
	if err != nil {
		call.Error(err.Error())
		return
	}
	name, text := string(call.Args[2]), string(call.Args[last])
	e.change(call, len(text), opts.dry, func() (*change, error) { return e.setting(name, text, opts) })
}

// setting returns the change that sets the policy called name to a text.
func (e *Editor) setting(name, text string, opts changeArgs) (*change, error) {
	rec, err := grammar.ParseRecord(name, name, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	return &change{edits: []edit{{name: name, text: &text, record: rec, version: opts.version, counters: opts.counters, void: opts.void}}}, nil
}

// load handles RL.POLICY LOAD. It replies the names of the file's records with their
// versions.
func (e *Editor) load(call *command.Call) {
	last := len(call.Args) - 1
	opts, err := parseChange(call.Args[2:last], withText)
	if err != nil {
		call.Error(err.Error())
		return
	}
	text := string(call.Args[last])
	e.change(call, len(text), opts.dry, func() (*change, error) {
		records, err := grammar.ParseFile("", []byte(text))
		if err != nil {
			return nil, fmt.Errorf("ERR %w", err)
		}
		c := &change{}
		c.reply = func(w *resp.Writer, versions []uint64) { c.writeVersions(w, versions) }
		for _, rec := range records {
			text := grammar.Format(rec)
			c.edits = append(c.edits, edit{name: rec.Name, text: &text, record: rec, version: -1, counters: opts.counters})
		}
		return c, nil
	})
}

// delPolicy handles RL.POLICY DEL. It replies the version of the deletion.
func (e *Editor) delPolicy(call *command.Call) {
	opts, err := parseChange(call.Args[3:], withIf|withReset)
	if err != nil {
		call.Error(err.Error())
		return
	}
	name := string(call.Args[2])
	e.change(call, len(name), false, func() (*change, error) {
		return &change{edits: []edit{{name: name, version: opts.version, void: opts.void}}}, nil
	})
}

// rollback handles RL.POLICY ROLLBACK.
func (e *Editor) rollback(call *command.Call) {
	version, err := wire.ParseInteger(call.Args[3])
	var opts changeArgs
	if err == nil {
		opts, err = parseChange(call.Args[4:], withIf|withText)
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	name := string(call.Args[2])
	st, ok := e.book.versionOf(name, uint64(version))
	if !ok || st.Gone {
		call.Error(fmt.Sprintf("ERR version %d of %s is unknown or no longer kept, see RL.POLICY HISTORY", version, name))
		return
	}
	e.change(call, len(st.Text), opts.dry, func() (*change, error) { return e.setting(name, st.Text, opts) })
}

// changeArgs are the options of a change, which come before its text.
type changeArgs struct {
	version  int64 // -1 allows any
	counters diff.Change
	void     bool
	dry      bool
}

// Options that only some changes have.
type changeOptions uint8

const (
	withIf changeOptions = 1 << iota
	withReset
	withText // CHANGE, DRYRUN
)

// parseChange reads options of a change.
func parseChange(args [][]byte, with changeOptions) (a changeArgs, err error) {
	a.version = -1
	given := map[string]bool{}
	for len(args) > 0 {
		word, n := args[0], 2
		name := strings.ToUpper(string(command.Clip(word, command.ErrorClip)))
		switch {
		case given[name]:
			err = wire.GivenTwice(name)
		case command.EqualFold(word, "reset") && with&withReset != 0:
			a.void, n = true, 1
		case command.EqualFold(word, "dryrun") && with&withText != 0:
			a.dry, n = true, 1
		case command.EqualFold(word, "if") && with&withIf != 0 && len(args) > 1:
			if a.version, err = wire.ParseInteger(args[1]); err == nil && a.version < 0 {
				err = errors.New("ERR IF must be a version, or 0 for a policy that must not exist yet")
			}
		case command.EqualFold(word, "change") && with&withText != 0 && len(args) > 1:
			a.counters, err = parseCounters(args[1])
		default:
			err = fmt.Errorf("ERR syntax error, unknown option '%s'", command.Clip(word, command.ErrorClip))
		}
		if err != nil {
			return a, err
		}
		given[name] = true
		args = args[n:]
	}
	return a, nil
}

func parseCounters(b []byte) (diff.Change, error) {
	c, ok := diff.ParseChange(strings.ToLower(string(command.Clip(b, command.ErrorClip))))
	if !ok {
		return 0, fmt.Errorf("ERR unknown change '%s', use keep, proportional or reset", command.Clip(b, command.ErrorClip))
	}
	return c, nil
}
