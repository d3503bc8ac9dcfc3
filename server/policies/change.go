package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/checks"
)

// change is a change of policies. It takes effect as a whole or not at all.
type change struct {
	at     int64  // engine time, ns
	author string // see command.Host
	edits  []edit
	// from is the node's file that the change loads, nil for none. Its edits depend on
	// earlier offers of files.
	from *ofFile
	// revision is the number of the change, set once it is made.
	revision uint64
	// made runs after the records are put; nil does nothing.
	made func(sess *engine.Session, versions []uint64) error
	// reply writes the reply. If it is nil, the version of the only edit is written.
	reply func(w *resp.Writer, versions []uint64)
}

// edit is what a change does to one record.
type edit struct {
	name string
	// text is the new text, nil to delete the record.
	text   *string
	record *policy.Record // the checked text
	file   string         // the file that it comes from
	// version is the required present version; -1 for any.
	version int64
	// counters says what happens to the counters. void resets all of them.
	counters diff.Change
	void     bool
	// changed is set after the change if the record has a new version. was is the version
	// before, 0 for none.
	changed bool
	was     uint64
}

// Errors of changes. They carry their code.
var (
	errVersion  = errors.New("VERSION the policy has another version")
	errNoPolicy = errors.New("NOPOLICY there is no such policy")
)

// errMoved makes a change try again, because another change is not committed yet.
var errMoved = errors.New("records have changed meanwhile")

const (
	// changePatience is how long a change waits for the commit of the change before it,
	// and changePoll how often it checks.
	changePatience = 2 * time.Second
	changePoll     = time.Millisecond
)

// commit makes a change: it puts the records, which take effect on every node once they
// are committed. It returns the new versions of the edited records. A text that is
// already stored changes nothing.
//
// A change is tried on the committed policies, and put only if nothing else was put
// since: two changes that each fit those policies may not fit together. So it waits for
// the change before it, unless waits is false.
func (e *Editor) commit(sess *engine.Session, c *change, waits bool) (versions []uint64, err error) {
	for begun := time.Now(); ; time.Sleep(changePoll) {
		if versions, err = e.put(sess, c); !errors.Is(err, errMoved) {
			return versions, err
		}
		if !waits || time.Since(begun) > changePatience {
			return nil, checks.ErrChanging
		}
	}
}

// put puts the records of a change and stages its set. It does so only if everything that
// was put before is committed.
func (e *Editor) put(sess *engine.Session, c *change) (versions []uint64, err error) {
	now := e.book.current()
	base, before := now.set, now.revision
	var note []byte
	if c.from != nil {
		note = e.offered(c)
	}
	puts, edits, versions, err := e.recordsOf(c, before)
	if err != nil || len(edits) == 0 && note == nil {
		return versions, err
	}
	if note != nil {
		puts = append(puts, engine.PolicyRecord{Name: fileRecord, Value: note})
	}
	if key := keyFor(base, edits); key != nil {
		puts = append(puts, engine.PolicyRecord{Name: secretRecord, Value: key})
		edits = slices.Insert(edits, 0, bookEdit{name: secretRecord, key: key})
	}
	st, err := e.book.build(base, edits, puts[0].Value)
	if err != nil {
		// The policy that the change lacks may be put but not committed yet.
		if !bytes.Equal(e.book.engine.PolicyRecord(revisionRecord), before) {
			return nil, errMoved
		}
		return nil, fmt.Errorf("ERR %w", err)
	}
	e.book.stage(st)
	err = sess.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		if !bytes.Equal(get(revisionRecord), before) { // each change has a revision
			return nil, errMoved
		}
		return puts, nil
	})
	if err != nil {
		e.book.unstage(st)
	}
	if err != nil && !errors.Is(err, errMoved) {
		return nil, engineError(err)
	}
	return versions, err
}

// recordsOf returns the records that a change puts, and its edits of the set. The first
// record is the revision's; before is the record of the last revision. A text that is
// already stored changes nothing.
func (e *Editor) recordsOf(c *change, before []byte) (puts []engine.PolicyRecord, edits []bookEdit, versions []uint64, err error) {
	revision := uint64(0)
	if before != nil {
		if revision, err = strconv.ParseUint(string(before), 10, 64); err != nil {
			return nil, nil, nil, fmt.Errorf("ERR %w", errStored)
		}
	}
	revision++
	c.revision = revision
	puts = []engine.PolicyRecord{{Name: revisionRecord, Value: strconv.AppendUint(nil, revision, 10)}}
	for i := range c.edits {
		ed := &c.edits[i]
		value := e.book.engine.PolicyRecord(ed.name)
		old := e.replaced(ed.name, value, revision)
		ed.was = old.present()
		next, err := e.revise(c, ed, &old, revision)
		if err != nil {
			return nil, nil, nil, err
		}
		if ed.changed = next != nil; !ed.changed {
			versions = append(versions, old.Version)
			continue
		}
		versions = append(versions, next.Version)
		records := next.records(ed.name)
		edits = append(edits, bookEdit{name: ed.name, record: ed.record, meta: next.meta()})
		puts = append(puts, records...)
		if value != nil {
			puts = append(puts, engine.PolicyRecord{Name: historyRecord(ed.name, old.Version), Value: value})
		}
		puts = append(puts, forgotten(e.book.engine.PolicyRecord, ed.name, &old)...)
	}
	return puts, edits, versions, nil
}

// engineError adds a code to an error of the engine; it returns ErrSealed as it is.
func engineError(err error) error {
	if errors.Is(err, engine.ErrSealed) {
		return err
	}
	return fmt.Errorf("ERR %w", err)
}

// revise returns the record that an edit makes from another; nil if nothing changes.
func (e *Editor) revise(c *change, ed *edit, old *stored, revision uint64) (*stored, error) {
	switch {
	case ed.version >= 0 && uint64(ed.version) != old.present():
		return nil, fmt.Errorf("%w: %d", errVersion, old.present())
	case ed.text == nil && old.Gone:
		return nil, errNoPolicy
	case c.from == nil && !old.Gone && !old.foreign && old.File != "" && !ed.voids(old):
		return nil, fmt.Errorf("%w: %s", errOfFile, old.File)
	}
	next := &stored{Version: old.Version + 1, Revision: revision, At: c.at / int64(time.Millisecond), Author: c.author, File: ed.file, Epochs: old.Epochs}
	if next.Gone = ed.text == nil; !next.Gone {
		next.Text = *ed.text
	}
	if ed.voids(old) {
		next.File = old.File
	}
	switch {
	case !ed.void && !next.Gone && !old.Gone && !old.foreign && old.Text == next.Text && (old.File == "") == (next.File == ""):
		return nil, nil
	case !isPolicy(ed.name):
		return next, nil
	}
	// An old text that cannot be read counts as none. Counters continue if they count in
	// the same way.
	was, err := old.parsed(ed.name)
	if err != nil {
		was, err = nil, nil
	}
	switch {
	case ed.void && next.Gone:
		next.Epochs = diff.ResetAll(was, old.Epochs)
	case ed.void || was == nil && old.foreign && ed.counters == diff.ChangeReset:
		next.Epochs = diff.ResetAll(ed.record, old.Epochs)
	default:
		if next.Epochs, err = diff.Revise(was, old.Epochs, ed.record, ed.counters); err != nil {
			err = fmt.Errorf("policy '%s': %w", ed.name, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	return next, nil
}

// voids reports whether the edit keeps the text and voids the counters.
func (ed *edit) voids(old *stored) bool { return ed.void && ed.text != nil && *ed.text == old.Text }

// parsed returns the checked tree of a record, nil for a deleted one.
func (st *stored) parsed(name string) (*policy.Record, error) {
	if st.Gone {
		return nil, nil
	}
	return grammar.ParseRecord(name, name, []byte(st.Text))
}

// present returns the present version, 0 for none.
func (st *stored) present() uint64 {
	if st.Gone {
		return 0
	}
	return st.Version
}

// replaced reads the record that a change replaces. If this node cannot read the record,
// it takes what it can: otherwise nobody could ever replace it. revision is the number of
// the change, which is above every version.
func (e *Editor) replaced(name string, value []byte, revision uint64) stored {
	st, err := decodeStored(value)
	if err == nil {
		err = st.join(partsOf(name, value, e.book.engine.PolicyRecord))
	}
	if err == nil {
		st.foreign = e.book.trouble(name) != nil
		return st
	}
	st = stored{}
	if json.Unmarshal(value, &st) != nil || st.Version == 0 {
		st = stored{Version: revision - 1}
	}
	st.foreign = true
	return st
}
