package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
)

// A level that has not risen, or not as far as some node can read, or on some nodes only, is none that has.
func TestRisenLevel(t *testing.T) {
	f := func(want bool, level, newest uint32, held ...raftlog.HeldBack) {
		t.Helper()
		require.Equal(t, want, risen(&raftlog.Status{Level: level, NewestLevel: newest, HeldBack: held}))
	}
	f(true, 4, 4)
	f(false, 3, 4)
	f(true, 1, 1) // the only one that there is
	f(false, 0, 0)
	f(false, 4, 4, raftlog.HeldBack{ID: "n2", Why: "is down"})
}

// Who holds a level back, and why, must be told, and nobody else named.
func TestHeldBackLevel(t *testing.T) {
	two, three := raftlog.HeldBack{ID: "n2", Why: "supports levels up to 3"}, raftlog.HeldBack{ID: "n3", Why: "is down"}
	f := func(want bool, level, newest uint32, held ...raftlog.HeldBack) {
		t.Helper()
		require.Equal(t, want, heldBack(&raftlog.Status{Level: level, NewestLevel: newest, HeldBack: held}, "n2", "supports levels"))
	}
	f(true, 3, 4, two)
	f(false, 3, 4)
	f(false, 3, 4, three)
	f(false, 3, 4, two, three)
	f(false, 4, 4, two)
	f(false, 3, 4, raftlog.HeldBack{ID: "n2", Why: "is down"})
}
