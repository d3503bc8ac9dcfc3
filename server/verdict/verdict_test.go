package verdict_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/verdict"
)

// Fields of a later release are skipped, wherever they are.
func TestLaterFields(t *testing.T) {
	reply := []byte("%4\r\n$3\r\nnew\r\n%1\r\n+a\r\n*2\r\n:1\r\n_\r\n$7\r\nallowed\r\n:1\r\n" +
		"$6\r\nlimits\r\n*1\r\n%2\r\n$4\r\nname\r\n$1\r\na\r\n$5\r\nlater\r\n$2\r\nxy\r\n$4\r\nname\r\n$1\r\na\r\n-ERR x\r\n")
	var v verdict.Verdict
	rest, err := v.Read(reply)
	require.NoError(t, err)
	require.True(t, v.Allowed)
	require.Equal(t, "a", string(v.Binding().Name))
	rest, err = v.Read(rest)
	require.Equal(t, &verdict.Error{Code: "ERR", Text: "x"}, err)
	require.Empty(t, rest)
}

// A reply that ends early, or is none, is an error.
func TestMalformed(t *testing.T) {
	const reply = "%3\r\n$7\r\nallowed\r\n:1\r\n$6\r\nlimits\r\n*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n$4\r\nsoft\r\n*1\r\n$1\r\nb\r\n"
	var v verdict.Verdict
	_, err := v.Read([]byte(reply))
	require.NoError(t, err)
	for n := range len(reply) {
		_, err := v.Read([]byte(reply[:n]))
		require.ErrorAs(t, err, new(resp.MalformedReply), "%d", n)
	}
	for _, other := range []string{"+OK\r\n", ":1\r\n", "*1\r\n:1\r\n", "_\r\n", "%-1\r\n", "%99999999999999999999\r\n", "%1000000000\r\n:1\r\n"} {
		_, err := v.Read([]byte(other))
		require.ErrorAs(t, err, new(resp.MalformedReply), other)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	reply := []byte("%3\r\n$7\r\nallowed\r\n:1\r\n$6\r\nlimits\r\n*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n$4\r\nsoft\r\n*1\r\n$1\r\nb\r\n")
	var v verdict.Verdict
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := v.Read(reply); err != nil {
			t.Fatal(err)
		}
	}))
}
