package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// plainWrites has each command that writes keys, with K, the counter of a policy, in each of
// its places. If the reply is not WRONGTYPE, it follows an arrow. string, list, zset, set and
// hash are keys of these types.
const plainWrites = `
expire K 5 -> 0
pexpire K 5 -> 0
expireat K 1 -> 0
pexpireat K 1 -> 0
persist K -> 0
rename string K
rename list K
rename K string
renamenx string K -> 0
renamenx K new
copy string K -> 0
copy string K REPLACE
copy hash K DB 0 REPLACE
copy K string REPLACE
copy K new DB 3
move K 3
set K 1
set K 1 EX 5
set K 1 XX GET
setex K 5 1
psetex K 5 1
setnx K 1
getset K 1
getdel K
getex K PERSIST
append K 1
setrange K 0 1
mset new 1 K 1
msetnx K 1 new 1 -> 0
incr K
decr K
incrby K 1
decrby K 1
incrbyfloat K 1
hset K f v
hmset K f v
hsetnx K f v
hdel K f
hincrby K f 1
hincrbyfloat K f 1
sadd K x
srem K x
spop K
smove set K x
smove K set x
sinterstore K set
sinterstore new K
sunionstore K set set
sdiffstore K set
sdiffstore K none
zadd K 1 x
zincrby K 1 x
zrem K x
zpopmin K
zpopmax K
zremrangebyrank K 0 -1
zremrangebyscore K 0 1
zremrangebylex K - +
lpush K x
rpush K x
lpushx K x
rpushx K x
lpop K
rpop K
ltrim K 0 0
lset K 0 x
lrem K 0 x
linsert K BEFORE x y
lmove list K LEFT RIGHT
lmove K list LEFT RIGHT
rpoplpush list K
cl.throttle K 1 1 1
rl.throttle K 1 1 1
throttle K 1 1 1
gcra K 1 1 1
rl.limit K 1 1m
rl.lease K 1 1m ID a SEQ 1 WANT 5
rl.return K ID a SEQ 1 HELD 0 -> 0
rl.limit new 1 1m AND K 1 1m
rl.acquire K 1 1s
rl.release K id
rl.extend K id 1s
increx K
`

// No plain command changes a policy's counter; only what deletes keys, or all,
// gives its caller a fresh budget.
func TestPlainCommandsLeaveCountersOfPolicies(t *testing.T) {
	const key = "@q:a;u=x"
	r := newRig(t, engine.Config{})
	r.setPolicy("q", `{limits: {a: {by: u, rate: 10/365d}}}`)
	require.EqualValues(t, 3, r.words("RL.CHECK q u x COST 7").([]any)[2])
	prepare := func() {
		for _, line := range []string{
			"DEL string list zset set hash new", "SET string 1", "RPUSH list x", "ZADD zset 1 x", "SADD set x", "HSET hash f v",
		} {
			r.words(line)
		}
	}
	tested := map[string]bool{"del": true, "unlink": true, "rl.reset": true, "eval": true, "evalsha": true}
	for line := range strings.Lines(strings.TrimSpace(plainWrites)) {
		line, want, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		if want == "" {
			want = "-WRONGTYPE Operation against a key holding the wrong kind of value"
		}
		line = strings.ReplaceAll(line, " K", " "+key)
		name, _, _ := strings.Cut(line, " ")
		tested[name] = true
		check := func(how string, reply any) {
			t.Helper()
			require.Equal(t, want, format(reply), "%s, %s", line, how)
			require.EqualValues(t, 3, r.words("RL.CHECK q u x COST 0").([]any)[2])
			require.Equal(t, "policy", r.words("TYPE "+key), "%s, %s", line, how)
		}
		prepare()
		check("alone", r.words(line))
		if r.s.table.Find([][]byte{[]byte(name)}).Flags&command.NoMulti != 0 {
			continue
		}
		prepare()
		r.words("MULTI")
		r.words(line)
		check("in a transaction", r.words("EXEC").([]any)[0])
	}
	r.s.table.Each(func(cmd *command.Spec) {
		if cmd.Flags&command.Write != 0 && (cmd.Keys.First > 0 || cmd.Keys.Find != nil) {
			require.True(t, tested[cmd.Full], "%s is not among the commands tested", cmd.Full)
		}
	})
	// From another database, where the name is any key's.
	for _, line := range []string{"SELECT 3", "SET " + key + " 1"} {
		r.is(line, "OK")
	}
	r.is("MOVE "+key+" 0", "0")
	r.is("COPY "+key+" "+key+" DB 0", "0")
	r.is("COPY "+key+" "+key+" DB 0 REPLACE", "-WRONGTYPE Operation against a key holding the wrong kind of value")
	r.is("SELECT 0", "OK")
	require.Contains(t, format(r.words("SWAPDB 0 3")), "-ERR")
	require.EqualValues(t, 3, r.words("RL.CHECK q u x COST 0").([]any)[2])
}
