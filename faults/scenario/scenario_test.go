package scenario

import (
	"testing"

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
