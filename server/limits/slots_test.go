package limits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// Replies are [allowed limit remaining retry_after_ms id ttl_ms].
func TestAcquire(t *testing.T) {
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{0, "RL.ACQUIRE k 2 10 ID a", "[1 2 1 0 a 10000]"},
		{1000, "RL.ACQUIRE k 2 10s ID b", "[1 2 0 0 b 10000]"},
		{2000, "RL.ACQUIRE k 2 10 ID c", "[0 2 0 8000 nil 0]"},
		// The same id again renews and counts once.
		{2000, "RL.ACQUIRE k 2 10 ID a", "[1 2 0 0 a 10000]"},
		{2000, "RL.ACQUIRE k 2 10 ID c", "[0 2 0 9000 nil 0]"},
		{2000, "TYPE k", "slots"},
		{2000, "RL.RELEASE k nobody", "0"},
		{2000, "RL.RELEASE k b", "1"},
		{2000, "RL.RELEASE k b", "0"},
		{2000, "RL.ACQUIRE k 2 10 ID c", "[1 2 0 0 c 10000]"},
		// A crashed holder's slot frees itself.
		{11999, "RL.ACQUIRE k 2 10 ID d", "[0 2 0 1 nil 0]"},
		{12000, "RL.ACQUIRE k 2 10 ID d", "[1 2 1 0 d 10000]"},
		{12000, "RL.EXTEND k a 10", "0"},
		{12000, "RL.EXTEND k d 500ms", "1"},
		{12499, "RL.EXTEND k d 500ms", "1"},
		{12998, "EXISTS k", "1"},
		{13000, "EXISTS k", "0"},
		{13000, "RL.RELEASE k d", "0"},
		// COST takes several units; above the limit no wait helps.
		{13000, "RL.ACQUIRE k 5 10 ID a COST 3", "[1 5 2 0 a 10000]"},
		{13000, "RL.ACQUIRE k 5 10 COST 3 ID b", "[0 5 2 10000 nil 0]"},
		{13000, "RL.ACQUIRE k 5 10 ID b COST 6", "[0 5 2 -1 nil 0]"},
		{13000, "RL.ACQUIRE k 5 10 ID a COST 5", "[1 5 0 0 a 10000]"},
		{13000, "RL.RELEASE k a", "1"},
		{13000, "EXISTS k", "0"},
	})
}

func TestAcquireGeneratesIDs(t *testing.T) {
	r := rig.New(t, engine.Config{})
	seen := map[string]bool{}
	for range 100 {
		id := r.Words("RL.ACQUIRE k 100 10").([]any)[4].(string)
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		require.False(t, seen[id])
		seen[id] = true
	}
	r.Is("RL.ACQUIRE k 100 10", "[0 100 0 10000 nil 0]")
	for id := range seen {
		r.Is("RL.RELEASE k "+id, "1")
	}
	r.Is("DBSIZE", "0")
}

func TestAcquireErrors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	for args, want := range map[string]string{
		"k 1":               "wrong number of arguments for 'rl.acquire' command",
		"k x 1":             "value is not an integer or out of range",
		"k -1 1":            "limit must be 0 or more",
		"k 1 x":             "period 'x' is not a positive number of seconds or a duration such as 500ms, 1m or 1d",
		"k 1 36526d":        "ttl must be positive and at most 100 years",
		"k 1 1 COST 0":      "cost must be at least 1 slot",
		"k 1 1 COST":        "syntax error",
		"k 1 1 FOO 1":       "syntax error",
		"k 1 1 ID a COST x": "value is not an integer or out of range",
	} {
		r.Is("RL.ACQUIRE "+args, "-ERR "+want)
	}
	const id = "-ERR id must be 1 to 128 bytes"
	require.Equal(t, id+"\r\n", r.Raw("RL.ACQUIRE", "k", "1", "1", "ID", ""))
	require.Equal(t, id+"\r\n", r.Raw("RL.ACQUIRE", "k", "1", "1", "ID", string(make([]byte, 129))))
	require.Equal(t, id+"\r\n", r.Raw("RL.RELEASE", "k", ""))
	r.Is("DBSIZE", "0")

	for range 4096 {
		r.Words("RL.ACQUIRE many 5000 10")
	}
	r.Is("RL.ACQUIRE many 5000 10", "-ERR key has the maximum of 4096 holders")
}
