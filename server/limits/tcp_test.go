package limits_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server"
)

// A pipeline over TCP in both protocols, with the vector of redis-cell's README.
func TestLimitsOverTCP(t *testing.T) {
	clock, _ := engine.NewManualClock(rig.Start)
	addr := rig.Serve(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}).Addr
	c := rig.Dial(t, addr)
	c.Send(rig.Encode("CL.THROTTLE", "user123", "15", "30", "60") + rig.Encode("RL.LIMIT", "a\r\n\x00", "1", "1m") + rig.Encode("INCREX", "n", "BYFLOAT", "0.5") +
		rig.Encode("HELLO", "3") + rig.Encode("CL.THROTTLE", "user123", "15", "30", "60") + rig.Encode("INCREX", "n", "BYFLOAT", "0.5") + rig.Encode("RL.EXPLAIN", "nobody") +
		rig.Encode("TYPE", "a\r\n\x00"))
	c.Expect("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:60000\r\n:0\r\n*2\r\n$3\r\n0.5\r\n$3\r\n0.5\r\n")
	c.Reply()
	c.Expect("*5\r\n:0\r\n:16\r\n:14\r\n:-1\r\n:4\r\n*2\r\n,1\r\n,0.5\r\n_\r\n+token\r\n")
}

// hammered are calls of one key that admit 100 in all, and what an admitted
// one's reply begins with.
var hammered = map[string]struct{ line, passed string }{
	"cl.throttle": {"CL.THROTTLE k 99 1 3600", "*5\r\n:0"},
	"throttle":    {"THROTTLE k 100 1 3600", "*5\r\n:1"},
	"gcra":        {"GCRA k 99 1 3600", "*5\r\n:0"},
	"token":       {"RL.LIMIT k 100 3600", "*6\r\n:1"},
	"leaky":       {"RL.LIMIT k 100 3600 ALGORITHM leaky", "*6\r\n:1"},
	"fixed":       {"RL.LIMIT k 100 3600 ALGORITHM fixed", "*6\r\n:1"},
	"sliding":     {"RL.LIMIT k 100 3600 ALGORITHM sliding", "*6\r\n:1"},
	"log":         {"RL.LIMIT k 100 3600 ALGORITHM log", "*6\r\n:1"},
	"chain":       {"RL.LIMIT j 1000 3600 AND k 100 3600", "*7\r\n:1"},
	"acquire":     {"RL.ACQUIRE k 100 3600", "*6\r\n:1"},
	"increx":      {"INCREX k UBOUND 100 EX 3600 ENX", ""},
}

// 64 connections that hammer one key admit exactly the limit, alone and within
// transactions. The clock stands, so that nothing refills.
func TestHammeredKeyAdmitsExactlyTheLimit(t *testing.T) {
	for name, h := range hammered {
		for _, multi := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/multi=%t", name, multi), func(t *testing.T) {
				clock, _ := engine.NewManualClock(rig.Start)
				addr := rig.Serve(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil), IOThreads: 2}).Addr
				require.Equal(t, int64(100), hammer(t, addr, h.line, h.passed, multi))
			})
		}
	}
}

// hammer sends line 20 times over each of 64 connections at once and returns
// how many calls were admitted.
func hammer(t *testing.T, addr, line, passed string, multi bool) int64 {
	const conns, calls = 64, 20
	in := strings.Repeat(line+"\r\n", calls)
	if multi {
		in = strings.Repeat("MULTI\r\nPING\r\n"+line+"\r\nEXEC\r\n", calls)
	}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range conns {
		c := rig.Dial(t, addr)
		wg.Go(func() {
			<-start
			c.Send(in)
			for range calls {
				if multi {
					c.Expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n")
				}
				if passed == "" { // [value, applied]
					admitted.Add(c.Reply().([]any)[1].(int64))
					continue
				}
				if c.Peek(len(passed)) == passed {
					admitted.Add(1)
				}
				c.Reply()
			}
		})
	}
	close(start)
	wg.Wait()
	return admitted.Load()
}

// A transaction is one step for everyone else: of two keys that are always
// charged together, both have the same left at every look.
func TestTransactionsAreIsolated(t *testing.T) {
	clock, _ := engine.NewManualClock(rig.Start)
	addr := rig.Serve(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil), IOThreads: 2}).Addr
	var wg sync.WaitGroup
	for i := range 8 {
		c := rig.Dial(t, addr)
		wg.Go(func() {
			a, b := "a", "b"
			if i%2 == 1 {
				a, b = b, a // locked in another order by the text, not by the server
			}
			for range 50 {
				c.Send("MULTI" + "\r\n")
				c.Expect("+OK\r\n")
				c.Send("INCREX " + a + "\r\n")
				c.Expect("+QUEUED\r\n")
				c.Send("INCREX " + b + "\r\n")
				c.Expect("+QUEUED\r\n")
				exec := c.Words("EXEC").([]any)
				require.Equal(t, exec[0], exec[1])
			}
		})
	}
	wg.Wait()
	c := rig.Dial(t, addr)
	c.Send("INCREX a BYINT 0" + "\r\n")
	c.Expect("*2\r\n:400\r\n:0\r\n")
}

// Commands on the whole table work in a transaction, beside commands on keys.
func TestWholeTableInTransactions(t *testing.T) {
	r := rig.New(t, engine.Config{})
	var got []any
	for range 50 {
		got = wholeTable(r)
		if !strings.Contains(rig.Format(got), "BUSY the transaction has run too long") {
			break // the machine was not too busy for it
		}
	}
	require.Len(t, got, 16)
	require.Equal(t, "[1 1 0 0 60000 0]", rig.Format(got[0]))
	require.Equal(t, "2", rig.Format(got[1]))
	require.Equal(t, "[k]", rig.Format(got[2]))
	require.Equal(t, "[0 [k]]", rig.Format(got[3]))
	require.Equal(t, "OK 0 nil", strings.Trim(rig.Format(got[10:13]), "[]"))
	require.Equal(t, "[1 1 0 0 60000 0]", rig.Format(got[13]))
	require.Equal(t, "[0 1 0 60000 60000 0]", rig.Format(got[15]))
}

// wholeTable runs a transaction about the whole table, which has one key before.
func wholeTable(r *rig.Rig) []any {
	r.Words("FLUSHALL")
	r.Words("RL.LIMIT old 1 60")
	for _, line := range []string{
		"MULTI", "RL.LIMIT k 1 60", "DBSIZE", "KEYS k", "SCAN 0 COUNT 1000 MATCH k", "RL.TOP HOT", "RL.STATS", "RL.SCRIPTS", "MEMORY STATS", "MEMORY USAGE k",
		"OBJECT ENCODING k", "FLUSHALL", "DBSIZE", "RANDOMKEY", "RL.LIMIT k 1 60", "RL.EXPLAIN k", "RL.LIMIT k 1 60",
	} {
		r.Words(line)
	}
	return r.Words("EXEC").([]any)
}
