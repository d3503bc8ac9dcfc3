package limits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/policy"
)

// Records of policies. One of a policy, of attributes, a list or routes has its name.
// Names that begin with internalPrefix, which no policy's does, are of this file:
// the versions before, the number of the last change, and overrides.
const (
	internalPrefix = "~"
	revisionRecord = internalPrefix + "revision"
	historyPrefix  = internalPrefix + "history/"
	overridePrefix = internalPrefix + "override/"
	// secretRecord has the cluster's key for attributes of type secret.
	secretRecord = internalPrefix + "secret"

	// keptVersions is how many versions before the present one are kept.
	keptVersions = 20
	// storedFormat is the version of the encoding. A node refuses one that it does
	// not know. Nodes of feature levels 5 to 11 know this one alone: a newer one
	// is written only at a level that says so (see cluster/features.go), or which
	// policies work would depend on who leads.
	storedFormat = 2
)

// historyRecord names the record of an earlier version.
func historyRecord(name string, version uint64) string {
	return fmt.Sprintf("%s%s/%d", historyPrefix, name, version)
}

// overrideRecord names the record of an override, whose identity may be longer than
// a name: by 128 bits of its hash.
func overrideRecord(o *policy.Override) string {
	sum := sha256.Sum256([]byte(o.ID()))
	return overridePrefix + o.Policy + "/" + hex.EncodeToString(sum[:16])
}

// isPolicy reports whether a record is of a policy, and not of what policies share,
// or of routes to them.
func isPolicy(name string) bool { return policy.KindOf(name) == policy.PolicyRecord }

// stored is a record of a policy at a version, or of its absence.
type stored struct {
	Format   int                          `json:"format"`
	Version  uint64                       `json:"version"`
	Revision uint64                       `json:"revision"` // of all changes
	At       int64                        `json:"at"`       // engine time, Unix ms
	Author   string                       `json:"author,omitempty"`
	File     string                       `json:"file,omitempty"` // that it was loaded from
	Gone     bool                         `json:"gone,omitempty"` // deleted: its counters may go on
	Epochs   map[string]policy.LimitEpoch `json:"epochs,omitempty"`
	Text     string                       `json:"text"`

	// foreign: this node does not understand the record. The rest is what it
	// could read of it.
	foreign bool
}

// meta is what the set needs beside the text.
func (st *stored) meta() policy.Meta { return policy.Meta{Version: st.Version, Epochs: st.Epochs} }

func (st *stored) encode() []byte {
	st.Format = storedFormat
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // of numbers and texts
	}
	return b
}

// errStored is returned for a record that this version cannot read.
var errStored = errors.New("the record is of another version of Headgate")

// replaced reads the record that a change replaces. It takes what it can of one
// that this node does not understand: otherwise nobody could ever replace that.
// revision is the number of the change, which is above every version.
func (b *Book) replaced(name string, value []byte, revision uint64) stored {
	st, err := decodeStored(value)
	if err == nil {
		st.foreign = b.trouble(name) != nil
		return st
	}
	st = stored{}
	if json.Unmarshal(value, &st) != nil || st.Version == 0 {
		st = stored{Version: revision - 1}
	}
	st.foreign = true
	return st
}

// decodeStored reads a record. One that is absent is Gone, and has no version.
func decodeStored(value []byte) (st stored, err error) {
	if value == nil {
		return stored{Gone: true}, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&st); err != nil {
		return stored{}, fmt.Errorf("%w: %w", errStored, err)
	}
	if st.Format != storedFormat {
		return stored{}, fmt.Errorf("%w: format %d, this node knows %d", errStored, st.Format, storedFormat)
	}
	return st, nil
}
