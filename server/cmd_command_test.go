package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

// Replies that clients of a cluster rely on are Redis's: where the keys are, and which nodes a
// command is for. The other side is a real redis-server.
func TestCommandInfoIsRedis(t *testing.T) {
	_, addr := startServer(t, Config{})
	ours, theirs := dial(t, addr), dial(t, redistest.Start(t))
	names := ours.call("COMMAND LIST").([]any)
	require.Contains(t, names, "client|list")
	compared := 0
	for _, name := range names {
		ask := fmt.Sprintf("COMMAND INFO %s", name)
		other, ok := theirs.call(ask).([]any)[0].([]any)
		if !ok {
			continue // Redis has it not
		}
		own := ours.call(ask).([]any)[0].([]any)
		compared++
		require.Equal(t, policyTipsOf(other[7]), policyTipsOf(own[7]), "tips of %s", name)
		require.Equal(t, contains(other[2], "movablekeys"), contains(own[2], "movablekeys"), "flags of %s", name)
		if contains(own[2], "movablekeys") {
			require.Equal(t, keySpecs(other[8]), keySpecs(own[8]), "keys of %s", name)
		}
	}
	require.Greater(t, compared, 150)
	require.False(t, contains(ours.call("COMMAND INFO RL.LIMIT").([]any)[0].([]any)[2], "movablekeys"), "its first key is enough")

	for _, args := range []string{"EVAL x 2 a b c", "EVALSHA x 0", "EVAL x 9 a", "SINTERCARD 2 a b LIMIT 1", "GET a", "DEL a b"} {
		for _, how := range []string{"GETKEYS", "GETKEYSANDFLAGS"} {
			line := "COMMAND " + how + " " + args
			own, other := ours.call(line), theirs.call(line)
			if how == "GETKEYSANDFLAGS" {
				own, other = keyNames(own), keyNames(other) // Redis shows more of the access
			}
			require.Equal(t, other, own, line)
		}
	}
	require.Equal(t, theirs.call("COMMAND GETKEYSANDFLAGS EVAL x 1 a"), ours.call("COMMAND GETKEYSANDFLAGS EVAL x 1 a"))
}

func contains(list any, word string) bool { return slices.Contains(list.([]any), any(word)) }

func policyTipsOf(tips any) (list []string) {
	for _, tip := range tips.([]any) {
		if s := tip.(string); strings.Contains(s, "_policy:") {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// keySpecs is where the keys are, without notes and flags.
func keySpecs(specs any) (all []string) {
	for _, spec := range specs.([]any) {
		fields := spec.([]any)
		for i := 0; i < len(fields); i += 2 {
			if fields[i] == "begin_search" || fields[i] == "find_keys" {
				all = append(all, fmt.Sprint(fields[i:i+2]...))
			}
		}
	}
	return all
}

func keyNames(reply any) (keys []any) {
	list, ok := reply.([]any)
	if !ok {
		return []any{reply}
	}
	for _, pair := range list {
		keys = append(keys, pair.([]any)[0])
	}
	return keys
}
