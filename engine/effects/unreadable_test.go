package effects

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

// nobody discards all records of a payload.
type nobody struct{}

func (nobody) AddLimit(algo.Limit)         {}
func (nobody) SetSystem(SystemKey, []byte) {}
func (nobody) Flush()                      {}
func (nobody) Included(int64)              {}

func TestUnreadableEffects(t *testing.T) {
	f := func(want string, payload ...byte) {
		t.Helper()
		var r Reader
		err := r.Open(payload)
		for err == nil && r.More() {
			_, err = r.Next(new(Effect), nobody{})
		}
		require.ErrorIs(t, err, ErrEffects)
		require.ErrorContains(t, err, want)
	}
	f("no version")
	f("version 13, this node knows 1 to 1; upgrade this node. If this node's data is from before the first release, wipe the data", 13, recordDelete, 0)
	f("bad deletion", Newest, recordDelete)
	f("bad deletion", Newest, recordDelete, 1<<lenBits, 'k')     // nothing to share
	f("bad state", Newest, recordPut, 0, 0)                      // no put before
	f("bad state", Newest, recordPutOf, 0, 0, 0)                 // no limit
	f("bad limit", Newest, recordLimit, 0, 0, 0)                 // cut short
	f("limit:", Newest, recordLimit, 0, 0, 0, 0, 0, 0)           // none
	f("bad deletion", Newest, recordDelete, longLen, 0xff, 0xff) // length cut short
	f("flush in the middle", Newest, recordDelete, 0, recordFlush)
	f("bad deletion", Newest, recordDelete|5<<kindBits) // of no kind
	f("bad deletion", Newest, recordDeleteIn, 0)        // database 0 is not named
	f("bad deletion", Newest, recordDeleteIn+algo.Spaces<<kindBits, 0)
	f("limit:", Newest, recordLimit|algo.Databases<<kindBits, 0, 0, 0, 2, 2, 0)
	f("limit:", Newest, recordLimit, byte(algo.BlockRecord+1), 0, 0, 2, 2, 0)
	f("bad system record", Newest, recordSystem, byte(SystemCharged), 1)
	f("bad system record", Newest, recordSystem, byte(SystemCharged), 1, 'n', 3, 'v')
	f("bad system record", Newest, recordSystem, byte(SystemCharged), 0, 0xff, 0xff, 0xff, 1)       // too large
	f("bad system record", Newest, recordSystem, byte(SystemPolicy)+1, 0, 0)                        // of no kind
	f("bad system record", Newest, recordSystem, byte(SystemPolicy), 0, 1)                          // no text
	f("bad limit", Newest, recordLimit, byte(algo.PolicyFixed), 0, 0, 2, 2, 0, 0xff, 0xff, 0xff, 0) // resets
	f("limit:", Newest, recordLimit, byte(algo.PolicyCalendar), 0, 0, 2, 2, 0, 0, 0)                // a period
	f("bad system record", Newest, recordSystem, byte(SystemScript), 0, 1)                          // no text
}
