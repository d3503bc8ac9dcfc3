package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A mark that was answered counts until its leader is killed; what is answered later, or counts less, is another leader's.
func TestMarks(t *testing.T) {
	r := &Run{epoch: time.Now()}
	m := &marks{r: r, reigns: make([]reign, 1)}
	for count := range int64(5) {
		m.answered(0, count+1, 0)
	}
	require.Len(t, m.reigns[0].marks, 5)
	m.answered(0, 3, 0)
	require.Len(t, m.reigns[0].marks, 3, "a leader was lost, and two marks with it")
	m.answered(0, 6, 0)
	require.Len(t, m.reigns[0].marks, 6, "marks without an answer count")
	m.killed(r.now())
	time.Sleep(time.Millisecond)
	m.answered(0, 7, 0)
	require.Len(t, m.reigns[0].marks, 6)
	require.Len(t, m.reigns, 2)
}

// The loss lies between the answer to the first mark that is gone and the sending of the last one. A leader that is
// killed long after it has stopped deciding has lost no more for that. A mark that waits at a node without time for it
// is decided after it was sent.
func TestWhatMarksLost(t *testing.T) {
	const ms = int64(time.Millisecond)
	r := reign{end: 2000 * ms, marks: []mark{{1 * ms, 2 * ms}, {5 * ms, 6 * ms}, {9 * ms, 10 * ms}, {30 * ms, 900 * ms}}}
	require.Zero(t, r.lost(4))
	require.Zero(t, r.lost(9))
	require.Equal(t, markEvery, r.lost(3), "one mark")
	require.Equal(t, 20*time.Millisecond, r.lost(2))
	require.Equal(t, 28*time.Millisecond, r.lost(0))
}
