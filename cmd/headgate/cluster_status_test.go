package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
)

// The status shows the feature level, what each node supports, and what holds
// the level back.
func TestStatusShowsTheFeatureLevel(t *testing.T) {
	s := raftlog.Status{
		Level: 1, Supports: 2, NewestLevel: 3,
		HeldBack: []raftlog.HeldBack{{ID: "n2", Why: "supports levels up to 2"}, {ID: "n3", Why: "is down"}},
		Members:  []raftlog.Member{{ID: "n1", Self: true, Up: true, Supports: 2}, {ID: "n2", Up: true, Supports: 3}, {ID: "n3"}},
	}
	var out strings.Builder
	require.NoError(t, printStatus(&out, &s))
	require.Contains(t, out.String(), "\nfeature level 1; level 3 is held back: n2 supports levels up to 2; n3 is down\n")
	require.Regexp(t, `n1 .* up +1-2 +-`, out.String())
	require.Regexp(t, `n2 .* up +1-3 +0`, out.String())
	require.Regexp(t, `n3 .* down +- +-`, out.String())
	s.Level, s.HeldBack = 3, nil
	out.Reset()
	require.NoError(t, printStatus(&out, &s))
	require.Contains(t, out.String(), "\nfeature level 3\n")

	// The line that docs/howto/upgrade.md shows.
	page, err := os.ReadFile("../../docs/howto/upgrade.md")
	require.NoError(t, err)
	s.Level, s.NewestLevel, s.HeldBack = 1, 2, []raftlog.HeldBack{{ID: "n3", Why: "is down"}}
	require.Contains(t, string(page), "\n```\n"+featureLevel(&s)+"\n```\n")
}
