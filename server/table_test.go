package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/command"
)

// The flags that the server acts on belong to these commands, and to no others.
func TestCommandsWithPrivateFlags(t *testing.T) {
	tab, err := command.NewTable(new(Server).commandLists()...)
	require.NoError(t, err)
	f := func(flag command.Flag, want string) {
		t.Helper()
		var got []string
		tab.Each(func(cmd *command.Spec) {
			if cmd.Flags&flag != 0 {
				got = append(got, cmd.Full)
			}
		})
		require.ElementsMatch(t, strings.Fields(want), got)
	}
	const help = " command|help client|help config|help acl|help slowlog|help latency|help pubsub|help debug|help object|help" +
		" memory|help cluster|help sentinel|help script|help function|help rl.policy|help rl.override|help"
	const client = " client|setinfo client|setname client|getname client|id client|info client|list client|kill client|no-evict" +
		" client|no-touch client|tracking client|caching client|trackinginfo client|getredir client|pause client|unpause client|reply"
	const own = "hello auth quit reset" + client
	f(command.Exec, "exec")
	f(command.Wait, "wait")
	f(command.Limit, "cl.throttle rl.throttle throttle gcra rl.limit rl.lease rl.acquire rl.check rl.ceiling rl.descriptors rl.reserve")
	f(command.Counter, "incr decr incrby decrby increx get mget exists set setnx setex psetex"+
		" ttl pttl expiretime pexpiretime expire pexpire expireat pexpireat")
	f(command.Unpaused, client+help)
	f(command.OwnConn, own+" watch rl.client")
	f(command.Select, "select")
	f(command.NeedsConn, own+" select watch multi exec discard unwatch subscribe psubscribe unsubscribe punsubscribe ssubscribe sunsubscribe monitor shutdown rl.charge rl.client")
	f(command.NoTable, own+help+" rl.client select ping echo time unwatch subscribe psubscribe unsubscribe punsubscribe ssubscribe sunsubscribe publish spublish"+
		" pubsub|channels pubsub|numsub pubsub|numpat pubsub|shardchannels pubsub|shardnumsub script|load script|exists script|flush script|kill script|debug function|flush function|list function|load"+
		" rl.policy|check rl.policy|set rl.policy|load rl.policy|file rl.policy|get rl.policy|del rl.policy|list rl.policy|history rl.policy|diff rl.policy|rollback rl.policy|confirm"+
		" rl.override|set rl.override|get rl.override|del rl.override|list")
	f(command.Script, "eval eval_ro evalsha evalsha_ro")
	f(command.Immediate, "multi exec discard watch quit reset")
	f(command.Subscribed, "ping quit reset subscribe psubscribe unsubscribe punsubscribe ssubscribe sunsubscribe")
	f(command.Peers, "rl.charge rl.client")
	f(command.Long, "del unlink exists touch rl.reset scan keys flushdb flushall publish spublish mget mset msetnx script|load cluster|countkeysinslot cluster|getkeysinslot debug|digest rl.policy|check rl.policy|load rl.policy|file rl.policy|reset")
}

// A command that asks limits says how it is answered without a leader. A command that sets its
// key to a value says so. No other command does.
func TestCommandsSayWhatHappensWithoutALeader(t *testing.T) {
	tab, err := command.NewTable(new(Server).commandLists()...)
	require.NoError(t, err)
	var sets []string
	tab.Each(func(cmd *command.Spec) {
		require.Equal(t, cmd.Flags&command.Limit != 0, cmd.Headless != nil, cmd.Full)
		if cmd.Sets != nil {
			sets = append(sets, cmd.Full)
		}
	})
	require.Equal(t, []string{"set", "setex", "psetex", "setnx"}, sets)
}

// A name that is no command is null in the reply of COMMAND INFO, as in Redis.
func TestCommandInfoOfUnknownNames(t *testing.T) {
	p := bothScripts(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		p.Redis(hello)
		p.Ours(hello)
		p.Same("COMMAND INFO nosuch client|nosuch")
	}
}

// HELP says of each subcommand what COMMAND DOCS does.
func TestHelp(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	containers := 0
	for _, cmd := range s.table.List() {
		if len(cmd.Subs) == 0 {
			continue
		}
		containers++
		help := c.call(cmd.Name + " help").([]any)
		require.Equal(t, cmd.Upper+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", help[0])
		require.Equal(t, []any{"HELP", "    Returns helpful text about the different subcommands."}, help[len(help)-2:])
		for _, sub := range cmd.Subs {
			require.Contains(t, help, strings.TrimSpace(sub.Upper+" "+sub.Syntax))
			require.Contains(t, help, "    "+sub.Summary)
			require.NotEmpty(t, sub.Summary, sub.Full)
		}
	}
	require.Equal(t, 16, containers)
	require.Equal(t, []any{"(no subcommand)", "    Returns detailed information about all commands."}, c.call("COMMAND HELP").([]any)[1:3])
	require.Contains(t, c.call("CONFIG HELP"), "GET parameter [parameter ...]")
	require.Contains(t, c.call("ACL HELP"), "CAT [category]")
}
