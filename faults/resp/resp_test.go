package resp

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func parse(in string) (Reply, error) { return Read(bufio.NewReader(strings.NewReader(in))) }

func TestRead(t *testing.T) {
	r, err := parse("%2\r\n$7\r\nallowed\r\n:1\r\n+remaining\r\n:-3\r\n")
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Field("allowed").Int)
	require.EqualValues(t, -3, r.Field("remaining").Int)
	require.Nil(t, r.Field("limit"))

	r, err = parse("*3\r\n$2\r\nab\r\n_\r\n*1\r\n#t\r\n")
	require.NoError(t, err)
	require.Equal(t, "ab", r.Elems[0].Str)
	require.Equal(t, "t", r.Elems[2].Elems[0].Str)

	r, err = parse("-UNCERTAIN the decision may have been taken\r\n")
	require.NoError(t, err)
	require.Equal(t, "UNCERTAIN the decision may have been taken", r.Error())
}

func TestReadRejects(t *testing.T) {
	for _, in := range []string{
		"", ":1", ":x\r\n", "?\r\n", "$3\r\nab", "*2\r\n:1\r\n", "$2000000\r\n", "*9223372036854775807\r\n", "%100000\r\n", ":1\n",
		strings.Repeat("*1\r\n", 20) + ":1\r\n",
	} {
		_, err := parse(in)
		require.Error(t, err, in)
	}
}

func TestAppend(t *testing.T) {
	require.Equal(t, "*2\r\n$4\r\nPING\r\n$0\r\n\r\n", string(Append(nil, "PING", "")))
}
