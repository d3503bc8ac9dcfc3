package policies

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// Names of records. A policy and its record have the same name. The same is true for
// attributes, lists and routes. The names of other records (earlier versions, parts of
// long texts, the revision, overrides) begin with internalPrefix. No policy's name begins
// with it.
const (
	internalPrefix = "~"
	revisionRecord = internalPrefix + "revision"
	historyPrefix  = internalPrefix + "history/"
	overridePrefix = internalPrefix + "override/"
	partPrefix     = internalPrefix + "part/"
	// secretRecord holds the cluster's key for attributes of type secret.
	secretRecord = internalPrefix + "secret"

	// keptVersions is how many earlier versions of a record are kept.
	keptVersions = 20
	// keptBytes bounds the size, in bytes, of the earlier versions of a record whose texts
	// are in parts. The latest of them always fits.
	keptBytes = grammar.MaxFile
	// storedFormat is the version of the encoding. A node refuses an unknown format. So a
	// leader writes a newer format only if the cluster has the feature level for it
	// (cluster/features.go). Otherwise a change of leader could break policies.
	storedFormat = 2
	// partsFormat is the format of a record whose text is in parts.
	partsFormat = 3
	// partBytes is the length of each part except the last.
	partBytes = 64 << 10
)

// historyRecord returns the name of the record of an earlier version.
func historyRecord(name string, version uint64) string {
	return fmt.Sprintf("%s%s/%d", historyPrefix, name, version)
}

// partRecord returns the name of the record with one part of a version's text. The part
// stays while the version is kept as an earlier version, and is deleted with it.
func partRecord(name string, version uint64, part int) string {
	return fmt.Sprintf("%s%s/%d/%d", partPrefix, name, version, part)
}

// overrideRecord returns the name of the record of an override. The name has 128 bits of a
// hash, because the override's identity may be longer than a name.
func overrideRecord(o *policy.Override) string {
	sum := sha256.Sum256([]byte(o.ID()))
	return overridePrefix + o.Policy + "/" + hex.EncodeToString(sum[:16])
}

// isPolicy reports whether a record is a policy. Routes, attributes and lists are not.
func isPolicy(name string) bool { return policy.KindOf(name) == policy.PolicyRecord }

// stored is the record of a version of a policy, or of its deletion.
type stored struct {
	Format   int                          `json:"format"`
	Version  uint64                       `json:"version"`
	Revision uint64                       `json:"revision"` // the number of the change
	At       int64                        `json:"at"`       // engine time in Unix ms
	Author   string                       `json:"author,omitempty"`
	File     string                       `json:"file,omitempty"` // the file that the text was loaded from
	Gone     bool                         `json:"gone,omitempty"` // the policy is deleted: its counters may continue in a later version
	Epochs   map[string]policy.LimitEpoch `json:"epochs,omitempty"`
	// Parts is how many further records contain the text, if it is too long for this
	// record.
	Parts int    `json:"parts,omitempty"`
	Text  string `json:"text"`

	// foreign reports that this node cannot read the record. The other fields are those
	// that it could read.
	foreign bool
}

// meta returns what the set needs besides the text.
func (st *stored) meta() policy.Meta { return policy.Meta{Version: st.Version, Epochs: st.Epochs} }

// records returns the records of a version: first the record with the name, then the parts
// of a text that is too long for the first record.
func (st *stored) records(name string) []engine.PolicyRecord {
	if len(st.Text) <= engine.MaxPolicyRecord {
		if value := st.encode(); len(value) <= engine.MaxPolicyRecord {
			return []engine.PolicyRecord{{Name: name, Value: value}}
		}
	}
	records := make([]engine.PolicyRecord, 1)
	head := *st
	for part := range slices.Chunk([]byte(st.Text), partBytes) {
		records = append(records, engine.PolicyRecord{Name: partRecord(name, st.Version, head.Parts), Value: part})
		head.Parts++
	}
	head.Text = ""
	records[0] = engine.PolicyRecord{Name: name, Value: head.encode()}
	return records
}

// inParts is the start of a record whose text is in parts.
var inParts = fmt.Appendf(nil, `{"format":%d,`, partsFormat)

// partsOf returns the existing parts of the text of one version of name. value is the
// version's record. It is fast, however long the text is.
func partsOf(name string, value []byte, get func(string) []byte) (parts [][]byte) {
	if !bytes.HasPrefix(value, inParts) {
		return nil
	}
	st, err := decodeStored(value)
	for i := 0; err == nil && i < st.Parts; i++ {
		part := get(partRecord(name, st.Version, i))
		if part == nil {
			break
		}
		parts = append(parts, part)
	}
	return parts
}

// join sets the text to the joined parts.
func (st *stored) join(parts [][]byte) error {
	if len(parts) != st.Parts {
		return fmt.Errorf("%w: its text has %d parts, and %d of them are here", errStored, st.Parts, len(parts))
	}
	var text strings.Builder
	text.Grow(len(parts) * partBytes)
	for _, part := range parts {
		text.Write(part)
	}
	if st.Parts > 0 {
		st.Text = text.String()
	}
	return nil
}

// forgotten returns records that delete the oldest versions of name. old is the version
// that has just become an earlier version.
func forgotten(get func(string) []byte, name string, old *stored) (puts []engine.PolicyRecord) {
	forget := func(version uint64) {
		record := historyRecord(name, version)
		puts = append(puts, engine.PolicyRecord{Name: record})
		for i := range partsOf(name, get(record), get) {
			puts = append(puts, engine.PolicyRecord{Name: partRecord(name, version, i)})
		}
	}
	if old.Version > keptVersions {
		forget(old.Version - keptVersions)
	}
	if old.Parts == 0 {
		return puts
	}
	room := keptBytes - len(old.Text)
	for v := old.Version - 1; v > 0 && v+keptVersions > old.Version; v-- {
		parts := partsOf(name, get(historyRecord(name, v)), get)
		if len(parts) == 0 {
			continue
		}
		if room -= len(parts) * partBytes; room < 0 {
			forget(v)
		}
	}
	return puts
}

func (st *stored) encode() []byte {
	if st.Format = storedFormat; st.Parts > 0 {
		st.Format = partsFormat
	}
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return b
}

// errStored is the error for a record that this release of Headgate cannot read.
var errStored = errors.New("the record is of another version of Headgate")

// decodeStored reads a record without its parts. For a missing record it returns a stored
// with Gone and without a version.
func decodeStored(value []byte) (st stored, err error) {
	if value == nil {
		return stored{Gone: true}, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil {
		return stored{}, fmt.Errorf("%w: %w", errStored, err)
	}
	switch {
	case st.Format == storedFormat && st.Parts == 0, st.Format == partsFormat && st.Parts > 0 && st.Text == "":
		return st, nil
	}
	return stored{}, fmt.Errorf("%w: format %d with %d parts, this node knows formats %d and %d", errStored, st.Format, st.Parts, storedFormat, partsFormat)
}
