package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys that are asked for ahead are those of commands whose first argument
// is one, and of scripts.
func TestKeysAhead(t *testing.T) {
	s, _ := startServer(t, Config{})
	l := s.newLine()
	defer l.lane.close()
	for command, want := range map[string]string{
		"get a": "a", "set a b": "a", "mget a b": "a", "evalsha x 1 a b": "a", "eval x 2 a b c": "a b", "evalsha x 1 a": "a",
		"evalsha x 0": "", "ping": "", "ping a": "", "nosuch a": "",
	} {
		var args [][]byte
		for _, word := range strings.Fields(command) {
			args = append(args, []byte(word))
		}
		var got []string
		l.lane.ahead.scripts = nil
		for _, key := range append(l.lane.firstKeys(nil, args), l.lane.ahead.scripts...) {
			got = append(got, string(key))
		}
		require.Equal(t, want, strings.Join(got, " "), command)
	}
}
