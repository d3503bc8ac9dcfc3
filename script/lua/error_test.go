package lua

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// An error has the line of the script that was running in the innermost Lua
// function, whichever function raised it.
func TestErrorLine(t *testing.T) {
	f := func(line int, text string) {
		t.Helper()
		env := NewEnvironment()
		p, err := env.Compile(text)
		require.NoError(t, err)
		th := NewThread(env)
		th.Reset(Limits{Steps: 1 << 20, Memory: 1 << 20})
		_, err = th.Run(p)
		var raised *Error
		require.True(t, errors.As(err, &raised), "%v", err)
		require.Equal(t, line, raised.Line, text)
	}
	f(1, "error('x')")
	f(2, "\nerror('x', 0)")
	f(3, "\n\nlocal x = nil + 1")
	f(2, "local function f()\n error({}) end\n f()")
	f(2, "local function f()\n return nil .. 'x' end\n return f()")
	f(4, "local ok, e = pcall(function()\n error({}) end)\n\nerror(e)")
	f(2, "\nstring.rep()")
	f(2, "\nreturn nosuch")
}

// pcall gives the text of an error table that has one.
func TestPCallGivesText(t *testing.T) {
	env := NewEnvironment()
	p, err := env.Compile("local _, a = pcall(error, {err = 'text'}) local _, b = pcall(error, {no = 1}) return a, type(b)")
	require.NoError(t, err)
	th := NewThread(env)
	th.Reset(Limits{Steps: 1 << 20, Memory: 1 << 20})
	results, err := th.Run(p)
	require.NoError(t, err)
	require.Equal(t, "text", results[0].Text())
	require.Equal(t, "table", results[1].Text())
}
