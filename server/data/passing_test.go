package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/keyspace"
)

// TestWhatIsPassedOverDecides has commands that return little, or few entries, and
// pass over much.
func TestWhatIsPassedOverDecides(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	c := newCaller(t)
	var err error
	c.table, err = command.NewTable(slices.Concat(Commands(), keyspace.Commands()))
	require.NoError(t, err)
	large := strings.Repeat("x", 20_000)
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	fill := func() {
		for _, key := range []string{"l", "few", "h", "s", "z", "str", "other"} {
			_, err := c.call.Sess.Delete(1, []byte(key))
			require.NoError(t, err)
		}
		for _, line := range []string{
			"RPUSH l" + repeat(40_000, " #"), "RPUSH few" + repeat(30, " "+large), "HSET h" + repeat(30, " # "+large),
			"SADD s" + repeat(30, " #"+large), "ZADD z" + repeat(30, " # #"+large), "SET str " + strings.Repeat(large, 15),
		} {
			reply, _ := c.run(line)
			require.NotEqual(t, "-", reply[:1], reply)
		}
	}
	for _, line := range []string{
		"LINDEX l 20000", "LINDEX l -20000", "LRANGE l 20000 20001", "LSET l 20000 x", "LSET l 20000 longer", "LTRIM l 12000 -12000", "RPOPLPUSH few few",
		"LRANGE few 0 -1", "LPOP few 20", "RPOP few 20", "LREM few 0 x", "LINSERT few BEFORE x y", "LPOS few x",
		"HGETALL h", "HVALS h", "HSCAN h 0", "HRANDFIELD h -1000 WITHVALUES", "HMGET h" + repeat(30, " #"),
		"SMEMBERS s", "SRANDMEMBER s 20", "SRANDMEMBER s -100", "SPOP s 2", "SUNION s", "SINTERSTORE d s", "SINTERCARD 1 s",
		"ZRANGE z 0 -1", "ZREVRANGE z 0 -1", "ZRANGEBYSCORE z 0 100", "ZPOPMIN z 20", "ZPOPMAX z 20", "ZRANDMEMBER z -100",
		"GET str", "GETRANGE str 0 -1", "GETSET str x", "SET str x GET", "GETEX str PERSIST", "GETDEL str", "MGET str str",
		"RENAME l other", "RENAMENX str other", "COPY few other", "MOVE h 1", "OBJECT ENCODING str",
	} {
		fill()
		c.call.InExec = true
		want, worker := c.run(line)
		c.call.InExec = false
		require.False(t, worker, "%.20s", line)
		if strings.HasPrefix(line, "MOVE") {
			c.call.Sess.Use(1)
			_, _ = c.call.Sess.Delete(1, []byte("h"))
			c.call.Sess.Use(0)
		}
		fill()
		c.call.InExec, c.call.Movable, c.call.Moves = true, true, false
		none, worker := c.run(line)
		moves := c.call.Moves
		c.call.InExec, c.call.Movable, c.call.Moves = false, false, false
		require.True(t, moves && !worker, "%.20s: a step that can move does", line)
		require.Empty(t, none, "%.20s", line)
		got, worker := c.run(line)
		require.True(t, worker, "%.20s", line)
		if name, _, _ := strings.Cut(line, " "); !strings.Contains(name, "RAND") && name != "SPOP" {
			require.Equal(t, want, got, "%.20s", line)
		}
	}
	fill()
	for _, line := range []string{
		"LINDEX l 2000", "LINDEX l -2000", "LRANGE l 0 100", "LRANGE l -100 -1", "LSET l 1 x", "LTRIM l 100 -100", "LTRIM l 0 39000", "LLEN l", "LINDEX few 15", "LPOP few", "LPUSH few x",
		"HGET h 7", "HKEYS none", "HEXISTS h 7", "HSTRLEN h 7", "SISMEMBER s 7", "ZRANGE z 0 3", "ZCOUNT z 0 100", "STRLEN str", "GETRANGE str 7 1000", "DEL str", "TYPE l", "EXISTS few",
	} {
		_, worker := c.run(line)
		require.False(t, worker, "%.20s", line)
	}
}

// TestSetsAreCombinedUnlocked has another session change a set while a worker puts
// sets together: it need not wait, and what has changed is seen.
func TestSetsAreCombinedUnlocked(t *testing.T) {
	c := newCaller(t)
	c.run("SADD a 1 2")
	c.run("SADD b 2 3")
	c.call.OnWorker = true
	other := c.call.Sess.Engine().NewSession()
	defer other.Close()
	tries := 0
	combine := combination(func(sets []packed.Set) [][]byte {
		if tries++; tries <= 2 {
			done := make(chan error)
			go func() {
				v, err := other.Open(1, []byte("a"), algo.Set)
				if err == nil {
					s := packed.NewSet(v)
					_, err = s.Add(fmt.Append(nil, "new", tries))
					v.Close()
				}
				done <- err
			}()
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(10 * time.Second):
				t.Fatal("the set is held")
			}
		}
		return union(sets)
	})
	c.call.W.B, c.call.Args = nil, [][]byte{[]byte("SUNIONSTORE"), []byte("d"), []byte("a"), []byte("b")}
	combine.store(&c.call)
	require.Equal(t, ":5\r\n", string(c.call.W.B))
	require.Equal(t, 3, tries)
	c.call.OnWorker = false
	members, _ := c.run("SMEMBERS d")
	require.Contains(t, members, "new2")
}

// TestVeryLongCommandsWorkOnCopies adds so many members that others would wait for
// the key.
func TestVeryLongCommandsWorkOnCopies(t *testing.T) {
	c := newCaller(t)
	var b strings.Builder
	for i := range 65_000 {
		fmt.Fprintf(&b, " %d m%d", i, i)
	}
	c.run("ZADD z 1 m1")
	got, worker := c.run("ZADD z" + b.String())
	require.True(t, worker)
	require.Equal(t, ":64999\r\n", got)
	got, _ = c.run("ZRANGE z 64000 64000")
	require.Equal(t, "*1\r\n$6\r\nm64000\r\n", got)
	got, worker = c.run("ZREM z" + b.String())
	require.True(t, worker)
	require.Equal(t, ":65000\r\n", got)
	got, _ = c.run("LPUSH z x")
	require.Equal(t, ":1\r\n", got, "the key is gone")
}
