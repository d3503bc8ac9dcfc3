package checks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

// A prepared check is taken by the command that it was prepared for, once, while policies, time
// and input are the same.
func TestTakeOfPreparedChecks(t *testing.T) {
	e := engine.New(engine.Config{})
	texts := map[string]string{"p": "{limits: {a: {by: user, rate: 1/s}}}", "r": "{limits: {a: {by: user, rate: 1/s}}}"}
	compiled := func() *policy.Set { return setOf(t, e, texts) }
	set := compiled()
	c := newTestChecker(e, set)
	call := &command.Call{Sess: e.NewSession(), Now: 1}
	m := memory(call)
	var commands [][][]byte
	for _, line := range []string{"RL.CHECK p user eve", "RL.CHECK p user", "RL.CHECK q user eve", "RL.CHECK p user bob", "RL.CHECK p user ann", "RL.CHECK r user eve"} {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		commands = append(commands, args)
	}
	prepare := func() {
		call.Round++
		for _, args := range commands {
			c.ahead(call, args)
		}
		require.Equal(t, 5, m.ready, "but one without a value")
	}
	takes := func(i int, set *policy.Set, want string) {
		t.Helper()
		defer m.end()
		call.Args = commands[i]
		p := m.take(call, set)
		if want == "" {
			require.Nil(t, p)
			require.Same(t, &m.own, m.matched)
			return
		}
		require.Same(t, set.Policy(commands[i][1]), p)
		require.Equal(t, want, string(m.call.Applied[0].Key))
	}

	prepare()
	takes(1, set, "")
	takes(0, set, "@p:a;user=eve")
	takes(0, set, "")
	takes(4, set, "@p:a;user=ann")
	takes(3, set, "") // passed over
	takes(5, set, "@r:a;user=eve")

	prepare()
	takes(2, set, "") // no such policy
	takes(5, set, "@r:a;user=eve")

	prepare()
	takes(0, compiled(), "")
	takes(3, set, "@p:a;user=bob")
	call.Now++
	takes(4, set, "")
	call.Now--

	prepare()
	call.Round++
	takes(0, set, "")
	prepare()
	for _, x := range m.ahead {
		require.NotNil(t, x.set)
	}
	call.Round++
	c.ahead(call, commands[1])
	for _, x := range m.ahead {
		require.Nil(t, x.set, "what was not taken is let go")
		require.Nil(t, x.first)
		require.Empty(t, x.call.Applied)
	}
}
