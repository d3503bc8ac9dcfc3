package browser

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node without traffic first shows the playground, and one with traffic what goes on.
func TestFirstPage(t *testing.T) {
	s := start(t)
	b := open(t, s.HTTP, "", desk)
	b.ready("playground")
	c := client(t, s.Addr)
	for range 3 {
		do(t, c, "RL.LIMIT", "user:1", 1, "1h")
	}
	b = open(t, s.HTTP, "", desk)
	b.ready("now")
	require.Equal(t, "#now", eval[string](b, "location.hash"))
	b.shows("main", "user:1")
}
