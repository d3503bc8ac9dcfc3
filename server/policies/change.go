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

// change is a change of policies. It takes effect completely or not at all.
type change struct {
	at     int64  // engine time in ns
	author string // see command.Host
	edits  []edit
	// from describes the node's file that the change loads; nil if it loads none. The
	// edits of such a change depend on the files that nodes have offered before (file.go).
	from *ofFile
	// revision is the number of the change; it is set when the change is made.
	revision uint64
	// made runs after the change's records are put. It may be nil.
	made func(sess *engine.Session, versions []uint64) error
	// ends names the policy whose holds of earlier versions the change ends, "" for none.
	ends string
	// reply writes the reply. If it is nil, the reply is the version of the only edit.
	reply func(w *resp.Writer, versions []uint64)
}

// edit is what a change does to one record.
type edit struct {
	name string
	// text is the new text; nil deletes the record.
	text   *string
	record *policy.Record // the parsed and checked text
	file   string         // the file that the text comes from
	// version is the version that the record must have now; -1 allows any.
	version int64
	// counters says which counters of the policy the change keeps. void resets all of them.
	counters diff.Change
	void     bool
	// changed is set after the change if the record has a new version. The field was is
	// the version before the change; 0 if there was none.
	changed bool
	was     uint64
}

// Errors of changes. Their texts begin with their codes.
var (
	errVersion  = errors.New("VERSION the policy has another version")
	errNoPolicy = errors.New("NOPOLICY there is no such policy")
)

// errMoved makes the editor try a change again, because another change was put and is not
// committed yet.
var errMoved = errors.New("records have changed meanwhile")

const (
	// changePatience is how long a change waits for the commit of the previous change.
	// changePoll is how often it looks.
	changePatience = 2 * time.Second
	changePoll     = time.Millisecond
)

// commit makes a change: it puts the records, which take effect on every node once they are
// committed. It returns the new versions of the edited records. A text that is already
// stored changes nothing.
//
// The editor tries a change on the committed policies, and puts it only if no other change
// was put meanwhile. The reason is that two changes may each fit those policies, but not
// together. So if another change was put, commit waits until that change is committed, and
// tries again. If the parameter waits is false, commit returns an error instead.
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

// put puts the records of a change, and stages the set that contains the change. It does so
// only if all changes that were put before are committed.
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
		// The policy that this change does not find may be put already, but not committed.
		if !bytes.Equal(e.book.engine.PolicyRecord(revisionRecord), before) {
			return nil, errMoved
		}
		return nil, fmt.Errorf("ERR %w", err)
	}
	e.book.stage(st)
	err = sess.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
		if !bytes.Equal(get(revisionRecord), before) { // another change was put: each change has a revision
			return nil, errMoved
		}
		return e.book.numbered(puts, get), nil
	})
	if err != nil {
		e.book.unstage(st)
	}
	if err != nil && !errors.Is(err, errMoved) {
		return nil, engineError(err)
	}
	return versions, err
}

// recordsOf returns the records that a change puts, and the edits of the set that the
// change makes. The first record is the revision's. last is the record of the last
// revision. A text that is already stored changes nothing.
func (e *Editor) recordsOf(c *change, last []byte) (puts []engine.PolicyRecord, edits []bookEdit, versions []uint64, err error) {
	revision := uint64(0)
	if last != nil {
		if revision, err = strconv.ParseUint(string(last), 10, 64); err != nil {
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

// engineError adds a code to an error of the engine. It returns ErrSealed unchanged.
func engineError(err error) error {
	if errors.Is(err, engine.ErrSealed) {
		return err
	}
	return fmt.Errorf("ERR %w", err)
}

// revise returns the record that an edit makes from the old record; nil if nothing changes.
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
	// If the old text cannot be read, the policy counts as new. Counters continue if the
	// new text counts in the same way as the old.
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
		} else if e.book.moves(was, ed.record) {
			next.Epochs = diff.ResetAll(ed.record, next.Epochs)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ERR %w", err)
	}
	return next, nil
}

// voids reports whether the edit keeps the text but resets the counters.
func (ed *edit) voids(old *stored) bool { return ed.void && ed.text != nil && *ed.text == old.Text }

// parsed returns the parsed text of a record; nil for a deleted record.
func (st *stored) parsed(name string) (*policy.Record, error) {
	if st.Gone {
		return nil, nil
	}
	return grammar.ParseRecord(name, name, []byte(st.Text))
}

// present returns the present version; 0 for a deleted record.
func (st *stored) present() uint64 {
	if st.Gone {
		return 0
	}
	return st.Version
}

// replaced reads the record that a change replaces. If this node cannot read all of the
// record, replaced keeps the fields that it can read: otherwise nobody could ever replace
// the record. revision is the number of the change, which is larger than every version.
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
