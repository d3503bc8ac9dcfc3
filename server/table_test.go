package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the server itself acts on is of these commands, and of no others.
func TestCommandsWithPrivateFlags(t *testing.T) {
	tab, err := newTable(commandLists()...)
	require.NoError(t, err)
	f := func(flag flag, want string) {
		t.Helper()
		var got []string
		tab.each(func(cmd *command) {
			if cmd.flags&flag != 0 {
				got = append(got, cmd.full)
			}
		})
		require.ElementsMatch(t, strings.Fields(want), got)
	}
	const client = " client|setinfo client|setname client|getname client|id client|info client|list client|kill client|no-evict" +
		" client|no-touch client|tracking client|caching client|trackinginfo client|getredir client|pause client|unpause client|reply client|help"
	const own = "hello auth select quit reset" + client
	f(flagExec, "exec")
	f(flagWait, "wait")
	f(flagLimit, "cl.throttle rl.throttle throttle gcra rl.limit rl.acquire")
	f(flagUnpaused, client)
	f(flagOwnConn, own+" watch")
	f(flagNoTable, own+" ping echo subscribe psubscribe unsubscribe punsubscribe publish"+
		" pubsub|channels pubsub|numsub pubsub|numpat pubsub|help")
	f(flagImmediate, "multi exec discard watch quit reset")
	f(flagSubscribed, "ping quit reset subscribe psubscribe unsubscribe punsubscribe")
	f(flagPeers, "rl.charge")
}
