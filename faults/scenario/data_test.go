package scenario

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/internal/respclient"
)

// The data are a share of the calls, of every kind, beside the calls that were there before. No command that counts is
// asked for what it cannot do.
func TestDataIsMixedIn(t *testing.T) {
	const rate, n = 1000, 100_000
	keys := limits(rate)
	before := keys.Places
	d := addData(keys, rate, audited)
	next := d.mix(rate, chargeAndPeek(keys))
	require.Equal(t, "EVALSHA window", dataKinds[hotPlace].Command)
	require.Zero(t, dataKinds[hotPlace].Period)
	rnd := rand.New(rand.NewPCG(1, 2))
	commands := make(map[string]int)
	of := make(map[bool]int)
	pairsOf := 0
	for i := range n {
		c := next(0, rnd, time.Duration(i)*time.Millisecond)
		place := int(c.Key) % keys.Places
		k := keys.Key(c.Key)
		if c.Kind == history.Pair {
			pairsOf++
			require.GreaterOrEqual(t, place, d.pairs)
			require.Equal(t, c.Key+1, c.Other)
			require.Equal(t, strings.HasPrefix(k.Name, "pair"), true)
			commands["pair "+k.Command]++
			continue
		}
		of[place >= d.first]++
		require.Equal(t, place >= before, place >= d.first)
		require.Less(t, place, d.pairs)
		if place < before {
			require.Empty(t, k.Command)
			continue
		}
		if c.Kind == history.Limit {
			commands[k.Command]++
		}
		require.True(t, c.Kind == history.Limit || k.Free && c.Kind == history.Reset)
		if !strings.HasPrefix(k.Command, "EVALSHA") {
			require.LessOrEqual(t, c.Cost, int32(1))
			require.GreaterOrEqual(t, c.Cost, int32(0))
			require.Equal(t, c.Kind == history.Limit, c.Limit == k.Limit, "a counter knows no other limit")
		}
	}
	require.InDelta(t, dataShare, float64(of[true])/n, 0.01)
	require.InDelta(t, pairShare, float64(pairsOf)/n, 0.01)
	for _, k := range dataKinds {
		require.Greater(t, commands[k.Command], n/len(dataKinds)/10, k.Command)
	}
	require.Positive(t, commands["pair "])
	require.Positive(t, commands["pair EVALSHA pair"])
}

// Data that are apart are all of their connections' calls, at their own rate, and nobody measures how late they are with the
// others.
func TestDataApart(t *testing.T) {
	const rate, n = 2000, 20_000
	keys := limits(rate)
	before := keys.Places
	d := addData(keys, rate, little)
	require.Equal(t, little.rate, d.rate)
	rnd := rand.New(rand.NewPCG(1, 2))
	pairsOf := 0
	for i := range n {
		c := d.all(0, rnd, time.Duration(i)*time.Millisecond)
		require.GreaterOrEqual(t, int(c.Key)%keys.Places, before)
		require.True(t, keys.Key(c.Key).Apart)
		if c.Kind == history.Pair {
			pairsOf++
		}
	}
	require.InDelta(t, little.pairRate/(little.rate+little.pairRate), float64(pairsOf)/n, 0.01)
	other := chargeAndPeek(keys)(0, rnd, time.Second)
	require.False(t, keys.Key(other.Key).Apart)
	addData(keys, rate, much)
	require.False(t, keys.Key(uint32(keys.Places-1)).Apart)
}

// Data that nobody decides show nothing.
func TestDataApartMustBeDecided(t *testing.T) {
	f := func(ok bool, decided, open int) {
		t.Helper()
		r := &Run{history: history.History{Keys: []history.Key{{}, {Apart: true}}, Calls: make([]history.Call, 100)}}
		for i := range decided + open {
			c := history.Call{Key: 1, Outcome: history.Refused}
			if i < decided {
				c.Outcome = history.Denied
			}
			r.history.Calls = append(r.history.Calls, c)
		}
		r.judgeApart()
		for _, f := range r.findings {
			require.Equal(t, ok, f.OK, f)
		}
		require.Equal(t, decided+open > 0, len(r.findings) > 0)
	}
	f(true, 0, 0)
	f(true, 3, 7)
	f(false, 29, 71)
}

// A reader sees both keys as one step has left them, in a transaction as in a script.
func TestPairReader(t *testing.T) {
	replies := strings.Repeat("+QUEUED\r\n", load.Between+3) + fmt.Sprintf("*%d\r\n", load.Between+2) +
		strings.Repeat("*2\r\n:7\r\n:0\r\n", load.Between+1) + "*2\r\n:6\r\n:0\r\n"
	f := func(command, reply string, one, two int64, failure string) {
		t.Helper()
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			defer server.Close()
			in := bufio.NewReader(server)
			n := 1
			if command == "" {
				n = load.Between + 4
			}
			for range n {
				if _, err := respclient.Read(in); err != nil {
					return
				}
			}
			server.Write([]byte(reply))
		}()
		p := &pairReader{client, bufio.NewReader(client)}
		a, b, err := p.read(history.Key{Name: "a", Command: command}, history.Key{Name: "b", Command: command})
		if failure != "" {
			require.ErrorContains(t, err, failure)
			return
		}
		require.NoError(t, err)
		require.Equal(t, [2]int64{one, two}, [2]int64{a, b})
	}
	f("EVALSHA pair", "*2\r\n:3\r\n:2\r\n", 3, 2, "")
	f("EVALSHA pair", "-NOSCRIPT none\r\n", 0, 0, "NOSCRIPT")
	f("", replies, 7, 6, "")
	f("", strings.Repeat("+QUEUED\r\n", load.Between+3)+"-CLUSTERDOWN none\r\n", 0, 0, "CLUSTERDOWN")
}

// What is left of the pairs is compared with what was answered.
func TestLastAuditSeesWhatIsMissing(t *testing.T) {
	var second atomic.Int64 // what the second key has; the first one has 2
	second.Store(2)
	n := answering(t, func() string { return fmt.Sprintf("*2\r\n:2\r\n:%d\r\n", second.Load()) })
	call := func(o history.Outcome) history.Call {
		return history.Call{Kind: history.Pair, Key: 0, Other: 1, Cost: 1, Start: 5, Outcome: o}
	}
	f := func(wrong int, mode string, flush int64, calls ...history.Call) {
		t.Helper()
		r := &Run{Options: Options{Mode: mode}}
		r.history = history.History{Keys: []history.Key{{Name: "pair0", Command: "EVALSHA pair"}, {Name: "pair1"}}, Calls: calls}
		r.flushed.End = flush
		a := &pairAudit{r: r}
		require.NoError(t, a.last(n.Addr))
		require.Equal(t, wrong, a.wrong, a.text)
	}
	yes, unknown := call(history.Admitted), call(history.Unknown)
	f(0, Sync, 0, yes, yes)
	f(0, Sync, 0, yes, unknown, unknown)
	f(1, Sync, 0, yes, yes, yes) // one that was answered is gone
	f(0, Async, 0, yes, yes, yes)
	f(1, Async, 0, yes) // more than were asked for
	f(0, Sync, 5, yes)  // nobody knows what a flush has left
	second.Store(1)
	f(1, Async, 0, yes, yes)
}
