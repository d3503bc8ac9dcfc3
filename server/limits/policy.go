package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// policyCommands change policies, and tell what they are.
func policyCommands(book *Book) []command.Spec {
	sub := func(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | command.NoScript, Categories: command.CatLimiter,
			Group: "limiter", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	const perText = "O(N), N the length of the text"
	const write, read = command.Write | command.NoTable | command.Guarded, command.Readonly | command.NoTable
	reset := sub("reset", -3, command.Write|command.NoMulti|command.Guarded|command.Long, "O(N), N the number of limits of the policy, or of keys where calls are held", "name [attribute value ...]",
		"Forgets what was consumed, and ends holds: of a caller, or of all.", book.reset)
	reset.Secrets = book.resetSecrets
	return []command.Spec{{
		Name: "rl.policy", Arity: -2, Flags: command.NoScript | command.Leader, Categories: command.CatLimiter, Group: "limiter",
		Complexity: "Depends on subcommand.", Summary: "A container for commands about policies.",
		Subs: []command.Spec{
			sub("check", 3, command.Local|command.NoTable|command.Long, perText, "text",
				"Tells what is wrong with a file of policies.", book.checkText),
			sub("set", -4, write, perText, "name [IF version] [CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN] text",
				"Makes a text the policy of a name; what it leaves alone goes on counting.", book.setPolicy),
			sub("load", -3, write|command.Long, perText, "[CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN] text",
				"Makes a whole file of policies, attributes and lists take effect, as one change.", book.load),
			sub("file", 5, write|command.Long, perText, "node path text",
				"Offers the file of a node, which sends this when it starts and when its file has changed.", book.loadFile),
			sub("get", -3, read, perText, "name [VERSION version]",
				"Returns a policy's text, its version, and who made it when.", book.getPolicy),
			sub("del", -3, write, "O(1)", "name [IF version] [RESET]",
				"Deletes a policy. Its counters stay until they expire, unless they are reset.", book.delPolicy),
			sub("list", 2, read, "O(N), N the number of policies", "",
				"Lists the policies with their versions.", book.listPolicies),
			sub("history", 3, read, "O(N), N the number of versions that are kept", "name",
				"Tells of the versions of a policy who made them when, the latest first.", book.history),
			sub("diff", -4, read, perText, "name version [version]",
				"Tells what differs between two versions of a policy, or between one and the present one.", book.diff),
			sub("rollback", -4, write, perText, "name version [IF version] [CHANGE <KEEP | PROPORTIONAL | RESET>] [DRYRUN]",
				"Makes the text of an earlier version the policy's next one.", book.rollback),
			reset,
		},
	}}
}

// checkText replies the errors of a file, one a line; none if it is right. Whether
// it fits to the policies that are there only a change of them tells.
func (b *Book) checkText(call *command.Call) {
	text := append([]byte(nil), call.Args[2]...)
	call.Host.Block(call, len(text), func(w *resp.Writer) {
		end, err := b.admit(len(text), true)
		if err != nil {
			w.Error(err.Error())
			return
		}
		defer end()
		records, err := policy.ParseFile("", text)
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
		shared := b.Set().Attributes()
		if i := slices.IndexFunc(records, func(r *policy.Record) bool { return r.Kind == policy.AttributesRecord }); i >= 0 {
			shared = records[i]
		}
		for _, rec := range records {
			lines = append(lines, warnings(rec, shared)...)
		}
		w.Array(len(lines))
		for _, l := range lines {
			w.BulkString(l)
		}
	})
}

// admit lets a text of size bytes be read, and changed for, until end. Long ones that
// are at a time have policy.MaxFile bytes together, since what they are read into takes
// ten times that. Others wait for these, unless waits is false.
func (b *Book) admit(size int, waits bool) (end func(), err error) {
	if size <= policy.MaxText {
		return func() {}, nil
	}
	n := int64(min(size, policy.MaxFile))
	if !b.reading.TryAcquire(n) {
		if !waits {
			return nil, errChanging
		}
		if err := b.reading.Acquire(context.Background(), n); err != nil {
			return nil, err
		}
	}
	return func() { b.reading.Release(n) }, nil
}

// warnings are what a text says in vain, a text a line.
func warnings(rec, shared *policy.Record) (lines []string) {
	if rec == nil {
		return nil
	}
	for _, w := range rec.Warnings(shared) {
		lines = append(lines, "warning: "+w.Error())
	}
	return lines
}

// oneLine makes a text one that a simple error can have.
func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

// changeArgs are the options of a change, which stand before its text.
type changeArgs struct {
	version  int64 // -1 for any
	counters policy.Change
	void     bool
	dry      bool
}

// Options that some changes have and others not.
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
			err = givenTwice(name)
		case command.EqualFold(word, "reset") && with&withReset != 0:
			a.void, n = true, 1
		case command.EqualFold(word, "dryrun") && with&withText != 0:
			a.dry, n = true, 1
		case command.EqualFold(word, "if") && with&withIf != 0 && len(args) > 1:
			if a.version, err = parseInteger(args[1]); err == nil && a.version < 0 {
				err = errors.New("ERR IF must be 0 or more: 0 is that there is no such policy")
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

func parseCounters(b []byte) (policy.Change, error) {
	c, ok := policy.ParseChange(strings.ToLower(string(command.Clip(b, command.ErrorClip))))
	if !ok {
		return 0, fmt.Errorf("ERR unknown change '%s', use keep, proportional or reset", command.Clip(b, command.ErrorClip))
	}
	return c, nil
}

// setPolicy is RL.POLICY SET. It replies the version.
func (b *Book) setPolicy(call *command.Call) {
	last := len(call.Args) - 1
	opts, err := parseChange(call.Args[3:last], withIf|withText)
	if err != nil {
		call.Error(err.Error())
		return
	}
	name, text := string(call.Args[2]), string(call.Args[last])
	b.change(call, len(text), opts.dry, func() (*change, error) { return b.setting(name, text, opts) })
}

// setting is the change that makes a text the policy of a name.
func (b *Book) setting(name, text string, opts changeArgs) (*change, error) {
	rec, err := policy.ParseRecord(name, name, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	return &change{edits: []edit{{name: name, text: &text, record: rec, version: opts.version, counters: opts.counters, void: opts.void}}}, nil
}

// load is RL.POLICY LOAD. It replies the names of the records of the file with
// their versions.
func (b *Book) load(call *command.Call) {
	last := len(call.Args) - 1
	opts, err := parseChange(call.Args[2:last], withText)
	if err != nil {
		call.Error(err.Error())
		return
	}
	text := string(call.Args[last])
	b.change(call, len(text), opts.dry, func() (*change, error) {
		records, err := policy.ParseFile("", []byte(text))
		if err != nil {
			return nil, fmt.Errorf("ERR %w", err)
		}
		c := &change{}
		c.reply = func(w *resp.Writer, versions []uint64) { c.writeVersions(w, versions) }
		for _, rec := range records {
			text := rec.Text()
			c.edits = append(c.edits, edit{name: rec.Name, text: &text, record: rec, version: -1, counters: opts.counters})
		}
		return c, nil
	})
}

// change makes a change on a worker, and replies its versions once it is
// committed, or, if it is dry, what it would change.
func (b *Book) change(call *command.Call, keep int, dry bool, of func() (*change, error)) {
	at, author := call.Now, call.Host.Author()
	run := func(sess *engine.Session, w *resp.Writer) error {
		end, err := b.admit(keep, !call.InExec)
		if err != nil {
			w.Error(err.Error())
			return nil
		}
		defer end()
		c, err := of()
		if err == nil {
			c.at, c.author = at, author
			if c.from != nil {
				c.author = "node " + c.from.node
			}
			if dry {
				err = b.rehearse(sess, c, w, !call.InExec)
			} else {
				err = b.carryOut(sess, c, w, !call.InExec)
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrSealed):
			w.Error(command.EngineError(err).Error())
			return err
		}
		w.Error(oneLine(err.Error()))
		return nil
	}
	if !dry {
		call.Sync = command.SyncCommit // who was answered has it on every node that may lead
	}
	if call.InExec {
		call.Err = run(call.Sess, call.W)
		return
	}
	sess := call.NewSession()
	call.Host.Block(call, keep, func(w *resp.Writer) {
		defer sess.Close()
		_ = run(sess, w) // replied
	})
}

// carryOut makes a change and replies the versions that it has led to.
func (b *Book) carryOut(sess *engine.Session, c *change, w *resp.Writer, waits bool) error {
	versions, err := b.commit(sess, c, waits)
	if err != nil {
		return err
	}
	for i := range c.edits {
		if ed := &c.edits[i]; ed.changed {
			b.audit.Info("policy changed", "author", c.author, "policy", ed.name, "old_version", ed.was, "version", versions[i],
				"revision", c.revision, "deleted", ed.text == nil, "reset", ed.void, "file", ed.file)
		}
	}
	if c.made != nil {
		if err := c.made(sess, versions); err != nil {
			return err
		}
	}
	if c.reply != nil {
		c.reply(w, versions)
		return nil
	}
	w.Int(int64(versions[0]))
	return nil
}

// writeVersions replies the names of the edits with the versions that they have
// led to.
func (c *change) writeVersions(w *resp.Writer, versions []uint64) {
	w.Array(len(versions))
	for i, v := range versions {
		p := command.NewPairs(w)
		p.Str("name", c.edits[i].name)
		p.Int("version", int64(v))
		p.Flush()
	}
}

// rehearse replies what a change would change, a text a line, and, if it may
// survey the table, which counters would deny a call.
func (b *Book) rehearse(sess *engine.Session, c *change, w *resp.Writer, surveys bool) error {
	base, before := b.standing()
	_, edits, _, err := b.recordsOf(sess.Engine(), c, before)
	if err != nil {
		return err
	}
	if key := keyFor(base, edits); key != nil {
		edits = slices.Insert(edits, 0, bookEdit{name: secretRecord, key: key})
	}
	st, err := b.build(base, edits, nil)
	if err != nil {
		return fmt.Errorf("ERR %w", err)
	}
	defer b.drop(st)
	var lines, names []string
	for i := range c.edits {
		ed := &c.edits[i]
		old := b.replaced(sess.Engine(), ed.name, sess.Engine().PolicyRecord(ed.name), c.revision)
		was, _ := old.parsed(ed.name) // one that is not understood is as none
		for _, d := range policy.Compare(was, ed.record) {
			lines = append(lines, ed.name+": "+d.String())
		}
		lines = append(lines, warnings(ed.record, st.next.Attributes())...)
		if ed.changed && isPolicy(ed.name) {
			names = append(names, ed.name)
		}
	}
	for _, name := range names {
		if n := st.asleep(name); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: overrides of RL.OVERRIDE that sleep then: %d", name, n))
		}
	}
	lines = append(lines, c.routeWarnings(st.next)...)
	if surveys {
		counted, err := surveyOf(sess, st, names)
		if err != nil {
			return engineError(err)
		}
		lines = append(lines, counted...)
	}
	w.Array(len(lines))
	for _, l := range lines {
		w.BulkString(l)
	}
	return nil
}

// delPolicy is RL.POLICY DEL. It replies the number of the version that says that
// there is none.
func (b *Book) delPolicy(call *command.Call) {
	opts, err := parseChange(call.Args[3:], withIf|withReset)
	if err != nil {
		call.Error(err.Error())
		return
	}
	name := string(call.Args[2])
	b.change(call, len(name), false, func() (*change, error) {
		return &change{edits: []edit{{name: name, version: opts.version, void: opts.void}}}, nil
	})
}

// rollback is RL.POLICY ROLLBACK.
func (b *Book) rollback(call *command.Call) {
	version, err := parseInteger(call.Args[3])
	var opts changeArgs
	if err == nil {
		opts, err = parseChange(call.Args[4:], withIf|withText)
	}
	if err != nil {
		call.Error(err.Error())
		return
	}
	name := string(call.Args[2])
	st, ok := b.versionOf(name, uint64(version))
	if !ok || st.Gone {
		call.Error(fmt.Sprintf("ERR version %d of %s is not kept", version, name))
		return
	}
	b.change(call, len(st.Text), opts.dry, func() (*change, error) { return b.setting(name, st.Text, opts) })
}

// versionOf returns a version of a policy that is kept.
func (b *Book) versionOf(name string, version uint64) (stored, bool) {
	if st, ok := b.stored(name); ok && st.Version == version {
		return st, true
	}
	return b.whole(name, historyRecord(name, version))
}
