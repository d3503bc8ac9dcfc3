package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every scenario that offers calls says what it may cost, in each of its modes.
func TestEveryScenarioHasBoundsOfLiveness(t *testing.T) {
	for i := range All {
		s := &All[i]
		if s.Rate == 0 {
			continue
		}
		require.NotEmpty(t, s.Live.Why, s.Name)
		for _, mode := range s.Modes {
			b := s.Live.of(mode)
			require.NotZero(t, b.Refused, "%s, %s", s.Name, mode)
			require.Less(t, b.Refused, .5, "half of all calls refused must not pass: %s, %s", s.Name, mode)
			require.NotZero(t, b.Silence, "%s, %s", s.Name, mode)
		}
		require.True(t, s.Brief == "" || s.supports(s.Brief), s.Name)
	}
}

// A mark that was answered counts until its leader is killed; what is answered later, or counts less, is another leader's.
func TestMarks(t *testing.T) {
	r := &Run{epoch: time.Now()}
	m := &marks{r: r, reigns: make([]reign, 1)}
	for count := range int64(5) {
		m.answered(0, count+1)
	}
	require.Len(t, m.reigns[0].answers, 5)
	m.answered(0, 3)
	require.Len(t, m.reigns[0].answers, 3, "a leader was lost, and two marks with it")
	m.answered(0, 6)
	require.Len(t, m.reigns[0].answers, 6, "marks without an answer count")
	m.killed(r.now())
	time.Sleep(time.Millisecond)
	m.answered(0, 7)
	require.Len(t, m.reigns[0].answers, 6)
	require.Len(t, m.reigns, 2)
}
