package checks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// A step that isolates keys gets the keys of a check, which are not among its arguments.
func TestKeysOfChecks(t *testing.T) {
	e := engine.New(engine.Config{Shards: 8})
	table, err := command.NewTable(newTestChecker(e, setOf(t, e, map[string]string{"p": "{limits: {a: {by: user, rate: 5/m}, all: {rate: 9/m, algorithm: log}}}"})).Commands())
	require.NoError(t, err)
	derived := func(line string) (keys []string) {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		spec := table.Find(args)
		require.False(t, spec.AboutTable(), "its keys are isolated")
		for _, key := range spec.Derived(args, 1) {
			keys = append(keys, string(key))
		}
		return keys
	}
	require.Equal(t, []string{"@p:a;user=eve", "@p:all"}, derived("RL.CHECK p user eve COST 3"))
	require.Equal(t, []string{"@p:a;user=eve", "@p:all"}, derived("RL.RESERVE p user eve COST 3"))
	require.Empty(t, derived("RL.CHECK q user eve"))
	require.Empty(t, derived("RL.CHECK p user"))
	require.Equal(t, []string{"@+p;x"}, derived("RL.COMMIT p;x"))
}
