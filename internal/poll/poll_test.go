package poll_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/poll"
)

func TestUntil(t *testing.T) {
	looks := 0
	thrice := func() bool { looks++; return looks == 3 }
	require.NoError(t, poll.Until(t.Context(), time.Millisecond, thrice))
	require.Equal(t, 3, looks)

	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, poll.Until(ended, time.Hour, func() bool { return true }), "it looks at once")
	require.ErrorIs(t, poll.Until(ended, time.Hour, func() bool { return false }), context.Canceled)
}
