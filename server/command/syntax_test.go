package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyntax(t *testing.T) {
	key := argument{name: "key", kind: "key"}
	f := func(syntax string, want ...argument) {
		t.Helper()
		got, err := parseSyntax(syntax)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	f("key", key)
	f("key [key ...]", argument{name: "key", kind: "key", multiple: true})
	f("[message]", argument{name: "message", kind: "string", optional: true})
	f("[channel ...]", argument{name: "channel", kind: "string", optional: true, multiple: true})
	f("[COUNT count]", argument{name: "count", kind: "integer", token: "COUNT", optional: true})
	f("<ON | OFF>", argument{name: "on", kind: "oneof", args: []argument{
		{name: "on", kind: "pure-token", token: "ON"}, {name: "off", kind: "pure-token", token: "OFF"}}})
	f("parameter value [parameter value ...]", argument{name: "parameter", kind: "block", multiple: true, args: []argument{
		{name: "parameter", kind: "string"}, {name: "value", kind: "string"}}})
	for _, bad := range []string{"[a", "a]", "<a]", "[]", "a | b"} {
		_, err := parseSyntax(bad)
		require.Error(t, err, bad)
	}
}
