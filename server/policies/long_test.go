package policies_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// Every command about versions takes a list that is longer than a record.
func TestCommandsOfALongList(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	r := rig.New(t, engine.Config{})
	list := func(of string) string {
		return strings.Repeat("- "+strings.Repeat("a", 240)+"\n", 2200) + "- " + of + "\n"
	}
	set := func(of string, options ...string) string {
		return rig.Format(r.Parse(r.Raw(append(append([]string{"RL.POLICY", "SET", "lists/l"}, options...), list(of))...)))
	}
	require.Equal(t, "1", set("one"))
	r.SetPolicy("p", `{deny: [{user: {list: l}}], limits: {l: {rate: 10/h}}}`)
	require.Equal(t, "1", set("one"), "the same text is no new version")
	require.Contains(t, set("two", "DRYRUN"), "two")
	require.Equal(t, "-VERSION the policy has another version: 1", set("two", "IF", "7"))
	require.Equal(t, "2", set("two"))
	require.Equal(t, "deny", r.Check("p user two PEEK").Reason)
	require.Equal(t, "ok", r.Check("p user one PEEK").Reason)
	r.Is("RL.POLICY DIFF lists/l 2", "[]")
	require.Contains(t, rig.Format(r.Words("RL.POLICY DIFF lists/l 1")), "two")
	require.True(t, rig.Pair(t, r.Words("RL.POLICY GET lists/l VERSION 1"), "text") == list("one"))
	r.Is("RL.POLICY ROLLBACK lists/l 1", "3")
	r.Is("RL.POLICY DIFF lists/l 1", "[]")
	require.Equal(t, "deny", r.Check("p user one PEEK").Reason)
	require.Len(t, r.Words("RL.POLICY HISTORY lists/l"), 3)
	r.Is("RL.POLICY LIST", "[[name lists/l version 3] [name p version 1]]")
	r.Is("RL.POLICY ROLLBACK lists/l 9", "-ERR version 9 of lists/l is unknown or no longer kept, see RL.POLICY HISTORY")
	r.Is("RL.POLICY DEL p", "2")
	r.Is("RL.POLICY DEL lists/l", "4")
	r.Is("RL.POLICY GET lists/l", "nil")
	r.Is("RL.POLICY ROLLBACK lists/l 2", "5")
	require.True(t, rig.Pair(t, r.Words("RL.POLICY GET lists/l"), "text") == list("two"))
}
