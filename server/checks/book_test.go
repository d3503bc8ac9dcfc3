package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/server/events"
)

// fixed is a Book of one set.
type fixed struct{ set *policy.Set }

func (b fixed) Set() *policy.Set                                 { return b.set }
func (b fixed) Current() (*policy.Set, bool)                     { return b.set, false }
func (b fixed) InForce() *policy.Set                             { return b.set }
func (fixed) Behind() bool                                       { return false }
func (b fixed) Missing(name []byte) string                       { return "NOPOLICY " + string(name) }
func (b fixed) Hide(_ []byte, _ [][]byte, _ int, at []int) []int { return at }

// setOf returns the compiled policies of texts by their names.
func setOf(t *testing.T, e *engine.Engine, texts map[string]string) *policy.Set {
	editor := policy.NewSet(policy.Config{Seed: e.Seed()}).Edit()
	for name, text := range texts {
		rec, err := grammar.ParseRecord(name, name, []byte(text))
		require.NoError(t, err)
		editor.Set(rec, policy.Meta{})
	}
	set, err := editor.Finish(1)
	require.NoError(t, err)
	return set
}

// newTestChecker returns the commands on one set of policies.
func newTestChecker(e *engine.Engine, set *policy.Set) *Checker {
	return New(NewHomes([]*engine.Engine{e}, nil, nil), fixed{set}, NewTallies(), events.New())
}
