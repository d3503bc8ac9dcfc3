package data

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// workerHost runs jobs at once and counts them.
type workerHost struct {
	command.Host // none
	jobs         int
}

func (h *workerHost) Block(call *command.Call, _ int, job func(w *resp.Writer)) {
	h.jobs++
	job(call.W)
}

func (h *workerHost) Uncertain(w *resp.Writer) { w.Error("UNCERTAIN") }

func (h *workerHost) MostReply() int { return 1 << 20 }

func (h *workerHost) Databases() int { return 16 }

// caller runs commands as a loop does.
type caller struct {
	t     *testing.T
	table *command.Table
	call  command.Call
	host  workerHost
}

func newCaller(t *testing.T) *caller {
	table, err := command.NewTable(Commands())
	require.NoError(t, err)
	s := engine.New(engine.Config{}).NewSession()
	t.Cleanup(s.Close)
	c := &caller{t: t, table: table}
	c.call = command.Call{W: &resp.Writer{}, Now: 1, Sess: s, Host: &c.host}
	return c
}

// run runs a command and returns its reply, and whether a worker made it.
func (c *caller) run(line string) (reply string, worker bool) {
	c.host.jobs = 0
	c.call.W.B = nil
	c.call.Args = nil
	for _, w := range strings.Fields(line) {
		c.call.Args = append(c.call.Args, []byte(w))
	}
	c.call.Spec = c.table.Find(c.call.Args)
	require.NotNil(c.t, c.call.Spec, line)
	c.call.Spec.Handler(&c.call)
	return string(c.call.W.B), c.host.jobs > 0
}

// TestLongCommandsLeaveTheLoop runs commands on collections of more entries than
// a loop handles itself.
func TestLongCommandsLeaveTheLoop(t *testing.T) {
	const n = command.InlineEntries + 1
	entries := func(format string, count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, " "+strings.ReplaceAll(format, "#", "%[1]d"), i)
		}
		return b.String()
	}
	c := newCaller(t)
	fill := func() {
		for _, line := range []string{"DEL", "HSET h" + entries("f# #", n), "SADD s" + entries("#", n), "ZADD z" + entries("# m#", n), "RPUSH l" + entries("#", 9*n)} {
			if line == "DEL" {
				for _, key := range []string{"h", "s", "z", "l"} {
					_, err := c.call.Sess.Delete(1, []byte(key))
					require.NoError(t, err)
				}
				continue
			}
			_, worker := c.run(line)
			require.True(t, worker, line[:10])
		}
	}
	for _, line := range []string{
		"HGETALL h", "HKEYS h", "HVALS h", "HSCAN h 0", "HRANDFIELD h 2", "HRANDFIELD h -1001", "HMGET h" + entries("f#", n), "HDEL h" + entries("f#", n),
		"SMEMBERS s", "SSCAN s 0", "SRANDMEMBER s 2", "SRANDMEMBER s -1001", "SPOP s 2", "SINTER s none", "SUNION s", "SDIFF s", "SINTERCARD 1 s", "SUNIONSTORE d s", "SMISMEMBER s" + entries("#", n), "SREM s" + entries("#", n),
		"ZRANGE z 0 -1", "ZREVRANGE z 0 -1", "ZRANGEBYSCORE z -inf inf", "ZRANGEBYLEX z - +", "ZSCAN z 0", "ZRANDMEMBER z 2", "ZPOPMIN z 2000", "ZPOPMAX z 2000", "ZREMRANGEBYSCORE z -inf inf", "ZREMRANGEBYRANK z 0 -1", "ZREM z" + entries("m#", n), "ZMSCORE z" + entries("m#", n),
		"LRANGE l 0 -1", "LPOP l 1001", "RPOP l 1001", "LREM l 0 x", "LINSERT l BEFORE x y", "LPOS l x", "LPUSH l" + entries("#", n),
	} {
		fill()
		c.call.InExec = true
		want, worker := c.run(line)
		c.call.InExec = false
		require.False(t, worker, "%.20s: a transaction's thread waits", line)
		require.NotEmpty(t, want)
		fill()
		got, worker := c.run(line)
		require.True(t, worker, "%.20s", line)
		if name, _, _ := strings.Cut(line, " "); !strings.Contains(name, "RAND") && name != "SPOP" {
			require.Equal(t, want, got, "%.20s", line)
		}
	}
	fill()
	for _, line := range []string{"HLEN h", "HGET h f1", "SISMEMBER s 1", "ZADD z 1 m1", "ZRANGE z 0 10", "ZREMRANGEBYSCORE z 0 10", "ZCOUNT z 0 500", "LRANGE l 0 10", "LPUSH l a", "LINDEX l 700", "SPOP s", "HRANDFIELD h"} {
		_, worker := c.run(line)
		require.False(t, worker, line)
	}
}

// TestPatternsLeaveTheLoop matches more text than a loop does.
func TestPatternsLeaveTheLoop(t *testing.T) {
	c := newCaller(t)
	c.run("HSET h f " + strings.Repeat("a", 2*stepsOfEntry*command.InlineEntries))
	_, worker := c.run("HSCAN h 0")
	require.False(t, worker)
	got, worker := c.run("HSCAN h 0 MATCH x*")
	require.True(t, worker)
	require.Equal(t, "*2\r\n$1\r\n0\r\n*0\r\n", got)
}

// TestRepliesOfRepeatsAreBounded asks for one long entry many times.
func TestRepliesOfRepeatsAreBounded(t *testing.T) {
	c := newCaller(t)
	long := strings.Repeat("a", 1000)
	c.run("HSET h f " + long)
	c.run("SADD s " + long)
	c.run("ZADD z 1 " + long)
	for _, line := range []string{"HRANDFIELD h -65536 WITHVALUES", "SRANDMEMBER s -65536", "ZRANDMEMBER z -65536"} {
		got, _ := c.run(line)
		require.Equal(t, "-"+errLongReply.Error()+"\r\n", got)
		got, _ = c.run(strings.Replace(line, "65536", "65537", 1))
		require.Equal(t, "-"+errManyRepeats.Error()+"\r\n", got)
	}
}
