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
	const help = " command|help client|help config|help acl|help slowlog|help latency|help pubsub|help debug|help object|help" +
		" memory|help cluster|help sentinel|help"
	const client = " client|setinfo client|setname client|getname client|id client|info client|list client|kill client|no-evict" +
		" client|no-touch client|tracking client|caching client|trackinginfo client|getredir client|pause client|unpause client|reply"
	const own = "hello auth select quit reset" + client
	f(flagExec, "exec")
	f(flagWait, "wait")
	f(flagLimit, "cl.throttle rl.throttle throttle gcra rl.limit rl.acquire")
	f(flagUnpaused, client+help)
	f(flagOwnConn, own+" watch")
	f(flagNoTable, own+help+" ping echo subscribe psubscribe unsubscribe punsubscribe publish"+
		" pubsub|channels pubsub|numsub pubsub|numpat")
	f(flagImmediate, "multi exec discard watch quit reset")
	f(flagSubscribed, "ping quit reset subscribe psubscribe unsubscribe punsubscribe")
	f(flagPeers, "rl.charge")
	f(flagLong, "del unlink exists touch rl.reset scan keys flushdb flushall publish cluster|countkeysinslot cluster|getkeysinslot debug|digest")
}

// HELP says of each subcommand what COMMAND DOCS does.
func TestHelp(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	containers := 0
	for _, cmd := range s.table.list {
		if len(cmd.subs) == 0 {
			continue
		}
		containers++
		help := c.call(cmd.name + " help").([]any)
		require.Equal(t, cmd.upper+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", help[0])
		require.Equal(t, []any{"HELP", "    Returns helpful text about the different subcommands."}, help[len(help)-2:])
		for _, sub := range cmd.subs {
			require.Contains(t, help, strings.TrimSpace(sub.upper+" "+sub.syntax))
			require.Contains(t, help, "    "+sub.summary)
			require.NotEmpty(t, sub.summary, sub.full)
		}
	}
	require.Equal(t, 12, containers)
	require.Equal(t, []any{"(no subcommand)", "    Returns detailed information about all commands."}, c.call("COMMAND HELP").([]any)[1:3])
	require.Contains(t, c.call("CONFIG HELP"), "GET parameter [parameter ...]")
	require.Contains(t, c.call("ACL HELP"), "CAT [category]")
}
