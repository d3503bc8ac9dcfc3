package server

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/access"
)

const adminPass = "open sesame"

// guarded are the commands for admin alone, with arguments that do no harm.
var guarded = map[string]string{
	"client|kill": "1.2.3.4:5", "client|no-evict": "on", "client|pause": "0", "client|unpause": "", "config|set": "maxmemory 1", "config|resetstat": "",
	"flushall": "", "flushdb": "", "latency|reset": "", "script|flush": "", "script|kill": "", "shutdown": "nonsense",
	"slowlog|reset": "",
	"rl.policy|set": "p {limits: {a: {rate: 5/h}}}", "rl.policy|load": "DRYRUN {}", "rl.policy|file": "n f {}", "rl.policy|del": "nosuch",
	"rl.policy|rollback": "nosuch 1", "rl.policy|reset": "nosuch", "rl.policy|confirm": "1",
	"rl.ceiling": "nosuch 1 0 0", "rl.override|set": "nosuch SCALE 50%", "rl.override|del": "nosuch SCALE",
}

// open are commands about more than keys that anyone may run all the same.
var open = strings.Fields(`
	acl acl|whoami acl|users acl|list acl|getuser acl|cat acl|setuser acl|deluser acl|help
	client|list client client|help command command|help config config|get config|rewrite config|help
	debug debug|digest debug|sleep debug|help info latency latency|latest latency|history latency|doctor latency|histogram latency|help
	cluster cluster|info cluster|myid cluster|myshardid cluster|nodes cluster|slots cluster|shards cluster|replicas cluster|slaves
	cluster|links cluster|keyslot cluster|countkeysinslot cluster|getkeysinslot cluster|help
	sentinel sentinel|get-master-addr-by-name sentinel|masters sentinel|master sentinel|replicas sentinel|slaves sentinel|sentinels
	sentinel|ckquorum sentinel|myid sentinel|help
	eval evalsha swapdb pubsub pubsub|help keys memory|stats memory|doctor memory|purge memory|help monitor object|help role rl.charge rl.client
	rl.check rl.descriptors rl.reserve rl.commit rl.cancel rl.policy rl.policy|check rl.policy|help rl.override rl.override|help
	script script|load script|debug script|help function function|flush function|list function|load function|help slowlog slowlog|get slowlog|len slowlog|help time
	test.hold test.work test.hang test.big`)

// A command without keys that does more than read, or act on its own connection, is for admin
// only, or is listed as an exception.
func TestEveryCommandIsGuardedOrOpen(t *testing.T) {
	_, addr := startServer(t, Config{})
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		c := dial(t, addr)
		c.call(hello)
		left := slices.Collect(maps.Keys(guarded))
		var unknown []string
		var walk func(list []any)
		walk = func(list []any) {
			for _, e := range list {
				cmd := e.([]any)
				name, flags, categories := cmd[0].(string), words(cmd[2]), words(cmd[6])
				_, isGuarded := guarded[name]
				require.Equal(t, isGuarded, slices.Contains(categories, "@guarded"), name)
				left = slices.DeleteFunc(left, func(s string) bool { return s == name })
				own := slices.ContainsFunc(categories, func(c string) bool {
					return c == "@connection" || c == "@transaction" || c == "@pubsub" || c == "@blocking"
				})
				about := cmd[3] != int64(0) || slices.Contains(flags, "movablekeys") || slices.Contains(flags, "readonly") || own
				if slices.Contains(flags, "admin") || slices.Contains(categories, "@dangerous") {
					about = false
				}
				if !about && !isGuarded && !slices.Contains(open, name) {
					unknown = append(unknown, name)
				}
				walk(cmd[9].([]any))
			}
		}
		walk(c.call("COMMAND").([]any))
		require.Empty(t, unknown)
		require.Empty(t, left, "no such commands")
	}
}

func words(list any) (s []string) {
	for _, e := range list.([]any) {
		s = append(s, e.(string))
	}
	return s
}

func noPerm(user, name string) string {
	return fmt.Sprintf("NOPERM User %s has no permissions to run the '%s' command", user, name)
}

func TestGuardedCommandsAreForAdmin(t *testing.T) {
	_, addr := startServer(t, Config{Settings: newFakeSettings(), Runtime: Runtime{AdminPass: adminPass}})
	for name := range guarded {
		args := append(strings.Split(name, "|"), strings.Fields(guarded[name])...)
		if name == "rl.policy|set" {
			args = []string{"rl.policy", "set", "p", "{limits: {a: {rate: 5/h}}}"}
		}
		for _, hello := range []string{"HELLO 2", "HELLO 3"} {
			c := dial(t, addr)
			c.call(hello)
			c.send(encode(args...))
			require.EqualError(t, c.reply().(error), noPerm("default", name))
			require.Equal(t, "OK", c.call("MULTI"))
			c.send(encode(args...))
			require.EqualError(t, c.reply().(error), noPerm("default", name), "in MULTI")
			require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT")
			c.send(encode("AUTH", "admin", adminPass))
			require.Equal(t, "OK", c.reply())
			c.send(encode(args...))
			require.NotContains(t, fmt.Sprint(c.reply()), "NOPERM", name)
		}
	}
}

// RL.TOP is anyone's, and RESET in it admin's: at once, in MULTI and in scripts.
func TestGuardedArguments(t *testing.T) {
	lines := &auditLines{}
	_, addr := startServer(t, Config{Runtime: Runtime{AdminPass: adminPass}, Audit: slog.New(slog.NewJSONHandler(lines, nil)),
		Parts: One(engine.New(engine.Config{TopK: 10}), nil)})
	c := dial(t, addr)
	c.call("RL.LIMIT k 1 1h")
	const look, reset = "RL.TOP HOT COUNT 5", "RL.TOP HOT COUNT 5 reset"
	ranked := []any{[]any{"k", int64(1), int64(0)}}
	require.EqualError(t, c.call(reset).(error), noPerm("default", "rl.top"))
	require.Equal(t, ranked, c.call(look))
	require.Equal(t, "OK", c.call("MULTI"))
	require.Equal(t, "QUEUED", c.call(look))
	require.EqualError(t, c.call(reset).(error), noPerm("default", "rl.top"), "in MULTI")
	require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT")
	c.send(encode("EVAL", "return redis.call('RL.TOP', 'RESET')", "0"))
	require.ErrorContains(t, c.reply().(error), "ACL failure in script: User default has no permissions to run the 'rl.top' command")
	require.Equal(t, ranked, c.call(look))
	require.Empty(t, lines.take(t))
	c.send(encode("AUTH", "admin", adminPass))
	require.Equal(t, "OK", c.reply())
	require.Equal(t, ranked, c.call(reset))
	require.Empty(t, c.call(look))
	all := lines.take(t)
	require.Len(t, all, 1)
	require.Equal(t, reset, all[0]["command"])
}

// A command that anyone may run needs no password. Without admin-pass all commands are such.
func TestWithoutAdminPassEveryoneAdministers(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{AdminPass: adminPass}})
	c := dial(t, addr)
	for _, cmd := range []string{"PING", "INCREX k", "DEL k", "CONFIG GET maxclients", "CLIENT LIST", "RL.POLICY LIST", "SLOWLOG GET", "INFO", "RL.POLICY CHECK {}", "KEYS *"} {
		require.NotContains(t, fmt.Sprint(c.call(cmd)), "NOPERM", cmd)
	}
	s.Configure(Runtime{})
	require.Equal(t, "OK", c.call("FLUSHALL"))
	require.ErrorContains(t, c.call("AUTH admin x").(error), "WRONGPASS")
	require.Equal(t, []any{"default"}, c.call("ACL USERS"))
	require.Nil(t, c.call("ACL GETUSER admin"))
}

// A connection has its user from AUTH or HELLO to RESET. A changed password applies to later
// logins, and a new admin-pass to the users who are not admin.
func TestWhoIsAdmin(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	who := func(want string) {
		t.Helper()
		require.Equal(t, want, c.call("ACL WHOAMI"))
		require.Contains(t, c.call("CLIENT INFO"), " user="+want+" ")
		if want == "admin" {
			require.Equal(t, "OK", c.call("FLUSHALL"))
		} else {
			require.EqualError(t, c.call("FLUSHALL").(error), noPerm("default", "flushall"))
		}
	}
	require.Equal(t, "OK", c.call("FLUSHALL"))
	s.Configure(Runtime{AdminPass: "one"})
	who("default")
	require.ErrorContains(t, c.call("AUTH admin two").(error), "WRONGPASS")
	require.ErrorContains(t, c.call("AUTH one").(error), "without any password configured for the default user")
	who("default")
	require.Equal(t, "OK", c.call("AUTH admin one"))
	who("admin")
	require.ErrorContains(t, c.call("AUTH admin two").(error), "WRONGPASS")
	who("admin")
	require.Contains(t, other.call("CLIENT LIST"), " user=admin ")
	require.ErrorContains(t, c.call("CLIENT KILL USER nobody").(error), "No such user")
	require.Equal(t, "OK", c.call("AUTH default whatever"))
	who("default")
	require.IsType(t, []any{}, c.call("HELLO 3 AUTH admin one SETNAME me"))
	who("admin")
	s.Configure(Runtime{AdminPass: "two"})
	who("admin")
	require.Equal(t, "RESET", c.call("RESET"))
	who("default")
	require.ErrorContains(t, c.call("AUTH admin one").(error), "WRONGPASS")
	require.Equal(t, "OK", c.call("AUTH admin two"))

	s.Configure(Runtime{AdminPass: "two", RequirePass: "pw"})
	fresh := dial(t, addr)
	require.ErrorContains(t, fresh.call("PING").(error), "NOAUTH")
	require.ErrorContains(t, fresh.call("FLUSHALL").(error), "NOAUTH")
	require.ErrorContains(t, fresh.call("AUTH two").(error), "WRONGPASS")
	require.ErrorContains(t, fresh.call("AUTH admin pw").(error), "WRONGPASS")
	require.Equal(t, "OK", fresh.call("AUTH pw"))
	require.ErrorContains(t, fresh.call("FLUSHALL").(error), "NOPERM")
	require.Equal(t, "OK", fresh.call("AUTH admin two"))
	require.Equal(t, "OK", fresh.call("FLUSHALL"))
	require.Equal(t, int64(2), fresh.call("CLIENT KILL USER admin SKIPME no"))
}

// Guesses of admin's password are slowed down like others.
func TestGuessingAdminPassIsSlow(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{AdminPass: adminPass}})
	c := dial(t, addr)
	begin := time.Now()
	require.ErrorContains(t, c.call("AUTH admin guess").(error), "WRONGPASS")
	require.GreaterOrEqual(t, time.Since(begin), access.LoginDelay)
}

func TestUsersOfACL(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{AdminPass: adminPass}})
	c := dial(t, addr)
	require.Equal(t, []any{"default", "admin"}, c.call("ACL USERS"))
	require.Equal(t, []any{"user default on nopass ~* &* +@all -@guarded", "user admin on sanitize-payload ~* &* +@all"}, c.call("ACL LIST"))
	require.Equal(t, "+@all", pair(t, c.call("ACL GETUSER admin"), "commands"))
	require.Equal(t, "+@all -@guarded", pair(t, c.call("ACL GETUSER default"), "commands"))
	require.Nil(t, c.call("ACL GETUSER nobody"))
	require.ElementsMatch(t, slices.Collect(maps.Keys(guarded)), words(c.call("ACL CAT guarded")))
}

// Nobody but admin reads the password that admin has.
func TestConfigGetHidesAdminPass(t *testing.T) {
	settings := newFakeSettings()
	settings.values["admin-pass"] = "sesame"
	_, addr := startServer(t, Config{Settings: settings, Runtime: Runtime{AdminPass: "sesame"}})
	c := dial(t, addr)
	for _, pattern := range []string{"admin-pass", "ADMIN-PASS", "admin*", "*"} {
		require.NotContains(t, format(c.call("CONFIG GET "+pattern)), "sesame")
		require.NotContains(t, format(c.call("CONFIG GET maxmemory "+pattern)), "admin-pass")
	}
	require.Equal(t, "OK", c.call("AUTH admin sesame"))
	require.Equal(t, []any{"admin-pass", "sesame"}, c.call("CONFIG GET admin-pass"))
}

// The right to run a queued command is checked when it is queued, when EXEC comes, and after an
// AUTH in the transaction.
func TestGuardedCommandsInTransactions(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("INCREX k")
	queue := func(commands ...string) {
		t.Helper()
		require.Equal(t, "OK", c.call("MULTI"))
		for _, cmd := range commands {
			require.Equal(t, "QUEUED", c.call(cmd))
		}
	}
	queue("INCREX k", "FLUSHALL")
	s.Configure(Runtime{AdminPass: "pw"})
	require.EqualError(t, c.call("EXEC").(error), "EXECABORT Transaction discarded because of: "+noPerm("default", "flushall"))
	require.ErrorContains(t, c.call("EXEC").(error), "EXEC without MULTI")
	require.Equal(t, []any{int64(2), int64(1)}, c.call("INCREX k"))

	c.call("AUTH admin pw")
	queue("INCREX k", "AUTH default x", "FLUSHALL", "AUTH admin pw", "DBSIZE")
	require.Equal(t, []any{[]any{int64(3), int64(1)}, "OK", noPerm("default", "flushall"), "OK", int64(1)}, texts(c.call("EXEC")))
	queue("FLUSHALL", "DBSIZE")
	require.Equal(t, []any{"OK", int64(0)}, c.call("EXEC"))
}

// texts makes the errors of a list their texts.
func texts(list any) []any {
	all := list.([]any)
	for i, e := range all {
		if err, ok := e.(error); ok {
			all[i] = err.Error()
		}
	}
	return all
}

// A script may call what its client may: on a loop, on a worker, in EXEC.
func TestGuardedCommandsInScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	_, addr := startServer(t, Config{Runtime: Runtime{AdminPass: "pw"}})
	const flush = "redis.call('SET', 'k', 1) return redis.call('FLUSHALL')"
	const slow = "for i = 1, 3000000 do local a = i * i end " + flush
	const caught = "local r = redis.pcall('FLUSHALL') return r.err or r.ok"
	c := dial(t, addr)
	run := func(body string) any {
		c.send(encode("EVAL", body, "0"))
		return c.reply()
	}
	inExec := func(body string) any {
		c.call("MULTI")
		c.send(encode("EVAL", body, "0"))
		c.reply()
		switch all := c.call("EXEC").(type) {
		case []any:
			return all[0]
		default:
			return all
		}
	}
	const text = "ERR ACL failure in script: User default has no permissions to run the 'flushall' command"
	for _, body := range []string{flush, slow} {
		require.ErrorContains(t, run(body).(error), text)
	}
	require.Equal(t, text, run(caught))
	require.ErrorContains(t, inExec(flush).(error), text)
	require.Equal(t, int64(1), c.call("DBSIZE"), "what was written before stays, as in Redis")
	require.Equal(t, "OK", c.call("AUTH admin pw"))
	for _, body := range []string{flush, slow, caught} {
		require.Equal(t, "OK", run(body))
	}
	require.NotContains(t, fmt.Sprint(inExec(flush)), "ACL")
	require.Zero(t, c.call("DBSIZE"))
	require.Equal(t, "OK", c.call("AUTH default x"))
	require.ErrorContains(t, run(flush).(error), text)
}

// A node checks what it forwards. The leader trusts it, knows the author of a change, and lets
// a script of admin's call guarded commands.
func TestGuardedCommandsAreAskedForWhereTheyCome(t *testing.T) {
	with := Runtime{AdminPass: "pw"}
	leader, follower := pairOfNodes(t, Config{Runtime: with}, Config{Runtime: with, ForwardTimeout: patience})
	c, other := dial(t, follower.addr), dial(t, follower.addr)
	var commits committer
	commits.run(t, leader.Server, 5*time.Millisecond, func() error {
		commits.ticket.Store(leader.ticket.Add(1) - 1)
		return nil
	})
	set := func(c *client, rate string) any {
		c.send(encode("RL.POLICY", "SET", "p", "{limits: {a: {rate: "+rate+"}}}"))
		return c.reply()
	}
	script := encode("EVAL", "return redis.call('FLUSHALL')", "0")
	exec := encode("MULTI") + script + encode("EXEC")
	denied := func(c *client) {
		t.Helper()
		for _, cmd := range []string{"flushall", "flushdb", "script flush"} {
			require.EqualError(t, c.call(cmd).(error), noPerm("default", strings.ReplaceAll(cmd, " ", "|")))
		}
		require.ErrorContains(t, set(c, "5/h").(error), "NOPERM")
		c.send(script)
		require.ErrorContains(t, c.reply().(error), "ACL failure in script")
		c.send(exec)
		c.reply()
		c.reply()
		require.ErrorContains(t, c.reply().([]any)[0].(error), "ACL failure in script")
	}
	allowed := func() {
		t.Helper()
		require.Equal(t, "OK", c.call("FLUSHALL"))
		c.send(script)
		require.Equal(t, "OK", c.reply())
		c.send(exec)
		c.reply()
		c.reply()
		require.NotContains(t, fmt.Sprint(c.reply()), "ACL")
		require.Equal(t, "OK", c.call("MULTI"))
		require.Equal(t, "QUEUED", c.call("FLUSHALL"))
		require.Equal(t, []any{"OK"}, c.call("EXEC"))
	}
	denied(c)
	require.Equal(t, "OK", c.call("AUTH admin pw"))
	require.Equal(t, "OK", c.call("CLIENT SETNAME deploy"))
	allowed()
	denied(other) // on streams that admin has used
	allowed()
	require.Equal(t, int64(1), set(c, "5/h"))
	author := func(want string) {
		t.Helper()
		history := other.call("RL.POLICY HISTORY p").([]any)
		require.Equal(t, want, pair(t, history[0], "author"))
	}
	author("admin deploy at " + c.LocalAddr().String())
	direct := dial(t, leader.addr)
	require.Equal(t, "OK", direct.call("AUTH admin pw"))
	require.Equal(t, int64(2), set(direct, "6/h"))
	author("admin at " + direct.LocalAddr().String())

	leader.Configure(Runtime{})
	follower.Configure(Runtime{})
	require.Equal(t, int64(3), set(other, "7/h"))
	author("default at " + other.LocalAddr().String())
	require.ErrorContains(t, other.call("RL.CLIENT admin x y").(error), "NOPERM RL.CLIENT is for the nodes of a cluster")
}

// A Caller is the process itself.
func TestCallersAdminister(t *testing.T) {
	s := newTestServer(t, Config{Runtime: Runtime{AdminPass: "pw"}}, nil)
	for _, args := range [][]string{{"FLUSHALL"}, {"EVAL", "return redis.call('FLUSHALL')", "0"}} {
		var b [][]byte
		for _, a := range args {
			b = append(b, []byte(a))
		}
		reply, err := s.Caller().Do(t.Context(), b...)
		require.NoError(t, err)
		require.Equal(t, "OK", reply.Str)
	}
}

// The leader's own password does not matter for commands that another node forwards.
func TestLeadersTrustNodesThatForward(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{Runtime: Runtime{AdminPass: "pw"}})
	c := dial(t, leader.forward)
	c.do("FLUSHALL", "+OK\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("FLUSHALL", "+QUEUED\r\n")
	c.do("EXEC", "*1\r\n+OK\r\n")
	require.ErrorContains(t, c.call(`EVAL "return redis.call('FLUSHALL')" 0`).(error), "ACL failure in script")
	c.do("RL.CLIENT admin x 1.2.3.4:5", "+OK\r\n")
	c.do(`EVAL "return redis.call('FLUSHALL')" 0`, "+OK\r\n")
	c.do("RL.CLIENT default x 1.2.3.4:5", "+OK\r\n")
	require.ErrorContains(t, c.call(`EVAL "return redis.call('FLUSHALL')" 0`).(error), "ACL failure in script")
}

// A Caller is within the process and administers, whichever node it calls.
func TestCallerAdministersOnEveryNode(t *testing.T) {
	cfg := Config{Runtime: Runtime{AdminPass: adminPass}}
	leader := startNode(t, partition.Leading, cfg)
	follower := startNode(t, partition.Following, cfg)
	follower.follow(leader.forward)
	for name, n := range map[string]*node{"leader": leader, "follower": follower} {
		r, err := n.Caller().Do(t.Context(), []byte("EVAL"), []byte("return redis.call('FLUSHALL')"), []byte("0"))
		require.NoError(t, err, name)
		require.Equal(t, "OK", string(r.Str), name)
	}
}
