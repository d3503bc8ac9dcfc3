package resp

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(in string) (Reply, error) {
	return ReadReply(bufio.NewReader(strings.NewReader(in)), 1<<20)
}

func TestReadReply(t *testing.T) {
	r, err := parse("%2\r\n$7\r\nallowed\r\n:1\r\n+remaining\r\n:-3\r\n")
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Field("allowed").Int)
	require.EqualValues(t, -3, r.Field("remaining").Int)
	require.Nil(t, r.Field("limit"))

	r, err = parse("*3\r\n$2\r\nab\r\n_\r\n*1\r\n#t\r\n")
	require.NoError(t, err)
	require.Equal(t, "ab", r.Elems[0].Str)
	require.Equal(t, "t", r.Elems[2].Elems[0].Str)

	r, err = parse("|1\r\n+ttl\r\n:5\r\n~2\r\n$-1\r\n=6\r\ntxt:hi\r\n")
	require.NoError(t, err)
	require.Equal(t, Reply{Type: '~', Elems: []Reply{{Type: '_'}, {Type: '=', Str: "txt:hi"}}}, r)

	r, err = parse("-UNCERTAIN the decision may have been taken\r\n")
	require.NoError(t, err)
	require.Equal(t, "UNCERTAIN the decision may have been taken", r.Error())
}

func TestReadReplyRejects(t *testing.T) {
	for _, in := range []string{
		"", ":1", ":x\r\n", "?\r\n", "$3\r\nab", "*2\r\n:1\r\n", "$2000000\r\n", "*9223372036854775807\r\n", "%100000\r\n", ":1\n",
		strings.Repeat("*1\r\n", 20) + ":1\r\n",
	} {
		_, err := parse(in)
		require.Error(t, err, in)
	}
}

func TestAppendCommand(t *testing.T) {
	require.Equal(t, "*2\r\n$4\r\nPING\r\n$0\r\n\r\n", string(AppendCommand(nil, []string{"PING", ""})))
}

// However much of a reply has come, its length is known when it is whole, and
// reading it takes as much.
func FuzzReply(f *testing.F) {
	f.Add([]byte("%1\r\n+a\r\n*2\r\n$1\r\nx\r\n:1\r\n"))
	f.Add([]byte("|1\r\n+ttl\r\n:5\r\n_\r\n"))
	f.Add([]byte("*-1\r\n$-1\r\n"))
	f.Add([]byte("$9223372036854775807\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 10
		n, err := ReplyLen(b, most)
		require.True(t, n >= 0 && n <= len(b))
		require.True(t, err == nil || n == 0)
		read, readErr := AppendReply(nil, bufio.NewReader(bytes.NewReader(b)), most)
		if n > 0 && n <= most {
			require.NoError(t, readErr)
			require.Equal(t, b[:n], read)
		} else {
			require.Error(t, readErr)
		}
		_, _ = ReadReply(bufio.NewReader(bytes.NewReader(b)), most)
	})
}
