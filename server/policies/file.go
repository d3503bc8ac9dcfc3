package policies

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # Files of nodes
//
// A node may have a file of policies. It offers the file to the cluster when it starts and
// whenever the file has changed. The cluster loads the file if its text is new to the
// cluster, or differs from the text that this node offered last. So a restart changes
// nothing, not even with an old file during a rollout. But if an operator puts an old text
// back on purpose, the cluster loads that text. Policies that are no longer in the file
// are deleted.

// fileRecord is the name of the record with all offers.
const fileRecord = internalPrefix + "file"

// Bounds of fileState. The oldest texts and nodes are forgotten.
const (
	keptTexts = 256
	keptNodes = 256
)

// fileState says which file is in force, and which files nodes have offered. It identifies
// a text by its SHA-256.
type fileState struct {
	Format int    `json:"format"`
	Text   string `json:"text"` // of the file in force
	Path   string `json:"path"`
	Node   string `json:"node"` // the node that offered it
	// Nodes holds the last offer of each node. Texts holds all texts that the cluster has
	// seen. The latest are at the end.
	Nodes []fileNode `json:"nodes"`
	Texts []string   `json:"texts"`
}

type fileNode struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// decodeFileState reads the record of offers. It returns the zero value if there is no
// record.
func decodeFileState(value []byte) (st fileState, err error) {
	if value == nil {
		return st, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil {
		return st, fmt.Errorf("%w: %w", errStored, err)
	}
	if st.Format != storedFormat {
		return st, fmt.Errorf("%w: format %d, this node knows %d", errStored, st.Format, storedFormat)
	}
	return st, nil
}

func (st *fileState) encode() []byte {
	st.Format = storedFormat
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

// offer notes a node's text. The result loads says that the text must be loaded, and the
// result noted that the record of offers changes.
func (st *fileState) offer(node, path, text string) (loads, noted bool) {
	i := slices.IndexFunc(st.Nodes, func(n fileNode) bool { return n.ID == node })
	known := slices.Contains(st.Texts, text)
	switch {
	case text == st.Text:
	case i >= 0: // this node's file is unchanged, so the file in force is newer
		loads = st.Nodes[i].Text != text
	default:
		loads = !known
	}
	if i >= 0 && st.Nodes[i].Text == text && !loads {
		return false, false
	}
	if i >= 0 {
		st.Nodes = slices.Delete(st.Nodes, i, i+1)
	}
	st.Nodes = append(st.Nodes, fileNode{node, text})
	st.Nodes = st.Nodes[max(0, len(st.Nodes)-keptNodes):]
	if !known {
		st.Texts = append(st.Texts, text)
		st.Texts = st.Texts[max(0, len(st.Texts)-keptTexts):]
	}
	if loads {
		st.Text, st.Path, st.Node = text, path, node
	}
	return loads, true
}

// ofFile is the part of a change that concerns a node's file.
type ofFile struct {
	node, path, hash string
	records          []*policy.Record
	// state is the new state of offers, after the change.
	state fileState
	loads bool
}

// offered makes the edits of a change that loads a file, from the earlier offers. note is
// the new record of offers; nil if it does not change.
func (e *Editor) offered(c *change) (note []byte) {
	f, err := c.from, error(nil)
	if f.state, err = decodeFileState(e.book.engine.PolicyRecord(fileRecord)); err != nil {
		f.state = fileState{} // unreadable: begin with no offers, because otherwise nobody could replace the record
	}
	c.edits = nil
	loads, noted := f.state.offer(f.node, f.path, f.hash)
	if f.loads = loads; loads {
		c.edits = e.fileEdits(f)
	}
	if !noted {
		return nil
	}
	return f.state.encode()
}

// fileEdits returns the edits that make the stored records equal to the file. They delete
// records that came from earlier files and are not in this one.
func (e *Editor) fileEdits(f *ofFile) (edits []edit) {
	has := make(map[string]bool, len(f.records))
	for _, rec := range f.records {
		text := grammar.Format(rec)
		has[rec.Name] = true
		edits = append(edits, edit{name: rec.Name, text: &text, record: rec, file: f.path, version: -1})
	}
	for _, name := range e.book.names() {
		if has[name] {
			continue
		}
		if st := e.replaced(name, e.book.engine.PolicyRecord(name), 0); !st.Gone && st.File != "" {
			edits = append(edits, edit{name: name, file: f.path, version: -1})
		}
	}
	return edits
}

// errOfFile is the reply to a change of a policy that comes from a node's file.
var errOfFile = errors.New("ERR the policy is in a node's policy file: change it there, or remove it from the file")

// loadFile handles RL.POLICY FILE. It replies whether the file was loaded, which file is in
// force, and how many records have changed.
func (e *Editor) loadFile(call *command.Call) {
	f := &ofFile{node: string(call.Args[2]), path: string(call.Args[3])}
	text := append([]byte(nil), call.Args[4]...)
	if f.node == "" || f.path == "" {
		call.Error("ERR RL.POLICY LOAD needs a node and a path")
		return
	}
	c := &change{from: f}
	c.reply = func(w *resp.Writer, _ []uint64) {
		changed := int64(0)
		for i := range c.edits {
			changed += command.Truth(c.edits[i].changed)
		}
		p := command.NewPairs(w)
		p.Int("loaded", command.Truth(f.loads))
		p.Int("in_force", command.Truth(f.state.Text == f.hash))
		p.Str("file", f.state.Path)
		p.Str("node", f.state.Node)
		p.Int("changed", changed)
		p.Flush()
	}
	e.change(call, len(text), false, func() (*change, error) {
		var err error
		if f.records, err = grammar.ParseFile(f.path, text); err != nil {
			return nil, fmt.Errorf("ERR %w", err)
		}
		f.hash = hashOf(text)
		return c, nil
	})
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
