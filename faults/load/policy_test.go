package load

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
)

var trio = history.Policy{Name: "trio", Sync: true, Limits: []history.PolicyLimit{
	{Name: "user", By: "user", Algorithm: history.Fixed, Period: 24 * time.Hour},
	{Name: "team", By: "team", Algorithm: history.Token, Period: 1000 * time.Hour},
	{Name: "all", Algorithm: history.Log, Period: time.Second},
}}

// The texts are policies, and their counters have the keys that Headgate gives them.
func TestPolicyText(t *testing.T) {
	rec, err := grammar.ParseRecord(trio.Name, trio.Name, []byte(policyText(&trio, []int32{5, 60, 7}, 3)))
	require.NoError(t, err)
	editor := policy.NewSet(policy.Config{Seed: maphash.MakeSeed()}).Edit()
	editor.Set(rec, policy.Meta{Version: 1})
	set, err := editor.Finish(1)
	require.NoError(t, err)
	p := set.Policy([]byte(trio.Name))
	who := history.Caller{Policy: trio.Name, User: "u1.2", Team: "t0.2"}
	call := &policy.Call{}
	call.Begin(p)
	args := attributes(&who)
	for i := 0; i < len(args); i += 2 {
		require.NoError(t, call.Set([]byte(args[i]), []byte(args[i+1])))
	}
	_, err = call.Match(0)
	require.NoError(t, err)
	require.Len(t, call.Applied, len(trio.Limits))
	for i, l := range trio.Limits {
		applied := &call.Applied[i]
		require.Equal(t, l.Name, applied.Limit.Name)
		require.Equal(t, CounterKey(&trio, l, &who), string(applied.Key))
		require.EqualValues(t, []int64{5, 60, 7}[i], applied.Numbers.Rate.Amount)
		require.EqualValues(t, l.Period, applied.Numbers.Rate.Period)
		require.Equal(t, string(l.Algorithm), applied.Limit.Algorithm.String())
	}
}

func TestEncodeChecks(t *testing.T) {
	who := &history.Caller{Policy: "trio", User: "u1.2", Team: "t0.2", Option: "SYNC"}
	args := Arguments(&history.Call{Kind: history.Check, Cost: 2}, history.Key{Caller: who}, history.Key{})
	require.Equal(t, "RL.CHECK trio user u1.2 team t0.2 COST 2 SYNC", strings.Join(args, " "))
	args = Arguments(&history.Call{Kind: history.Check}, history.Key{Caller: &history.Caller{Policy: "solo", User: "u"}}, history.Key{})
	require.Equal(t, "RL.CHECK solo user u COST 0", strings.Join(args, " "))
}

// checkReply is a reply to a check that a limit stands for.
func checkReply(allowed int, limit, remaining, version int, name string) string {
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	b := "%6\r\n" + bulk("allowed") + fmt.Sprintf(":%d\r\n", allowed) + bulk("limit") + fmt.Sprintf(":%d\r\n", limit) +
		bulk("remaining") + fmt.Sprintf(":%d\r\n", remaining) + bulk("version") + fmt.Sprintf(":%d\r\n", version) + bulk("name") + bulk(name) +
		bulk("limits") + "*2\r\n"
	for _, l := range []string{"user", "all"} {
		b += "%1\r\n" + bulk("name") + bulk(l)
	}
	return b
}

func TestClassifyChecks(t *testing.T) {
	judge := func(text string) (history.Call, string) {
		r, err := respclient.Read(bufio.NewReader(strings.NewReader(text)))
		require.NoError(t, err)
		c := history.Call{Kind: history.Check, Cost: 1, Limit: 99}
		code := classify(&c, &r, history.Key{Caller: &history.Caller{}})
		return c, code
	}
	c, code := judge(checkReply(1, 9, 4, 7, "all"))
	require.Empty(t, code)
	require.Equal(t, history.Call{Kind: history.Check, Cost: 1, Limit: 9, Remaining: 4, Version: 7, Binding: 2, Outcome: history.Admitted}, c)
	c, code = judge(checkReply(0, 9, 0, 7, "user"))
	require.Empty(t, code)
	require.Equal(t, history.Denied, c.Outcome)
	require.EqualValues(t, 1, c.Binding)
	c, code = judge("-UNCERTAIN the decision may have been taken\r\n")
	require.Equal(t, "UNCERTAIN", code)
	require.Equal(t, history.Unknown, c.Outcome)
	_, code = judge(checkReply(0, 9, 0, 7, "none"))
	require.Equal(t, malformed, code)
	_, code = judge(decision(1, 2))
	require.Equal(t, malformed, code)
}

// policyServer keeps the versions of a policy, and does to changes of it what it is
// told to, once each.
type policyServer struct {
	mu    sync.Mutex
	texts []string
	rates map[string]string
	next  []func(apply func()) string // "" closes the connection
}

func (s *policyServer) answer(cmd *resp.Reply) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	arg := func(i int) string { return cmd.Elems[i].Str }
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	did := "+OK\r\n"
	var apply func()
	switch {
	case arg(1) == "GET" && arg(0) == "RL.POLICY":
		v := len(s.texts)
		if len(cmd.Elems) > 3 {
			v, _ = strconv.Atoi(arg(4))
		}
		return "%2\r\n" + bulk("version") + fmt.Sprintf(":%d\r\n", v) + bulk("text") + bulk(s.texts[v-1])
	case arg(1) == "GET":
		rate, ok := s.rates[arg(6)]
		if !ok {
			return "_\r\n"
		}
		return "%1\r\n" + bulk("rate") + bulk(rate)
	case arg(1) == "SET" && arg(0) == "RL.POLICY":
		if arg(4) != strconv.Itoa(len(s.texts)) {
			return fmt.Sprintf("-VERSION the policy has another version: %d\r\n", len(s.texts))
		}
		apply = func() { s.texts = append(s.texts, arg(7)) }
		did = fmt.Sprintf(":%d\r\n", len(s.texts)+1)
	case arg(1) == "SET":
		apply = func() { s.rates[cmd.Elems[len(cmd.Elems)-1].Str] = arg(6) }
	case arg(1) == "DEL":
		return ":0\r\n"
	default:
		return "-ERR unexpected\r\n"
	}
	if len(s.next) > 0 {
		how := s.next[0]
		s.next = s.next[1:]
		return how(apply)
	}
	apply()
	return did
}

func newEditor(t *testing.T, s *policyServer) *Editor {
	addr := serve(t, s.answer)
	e, err := NewEditor(EditorConfig{
		Policies: []history.Policy{trio}, Nodes: 1, Dial: func(int) string { return addr }, Epoch: time.Now(), Every: time.Hour, Timeout: 10 * time.Second,
		Amounts:    func(_ *history.Policy, rnd *rand.Rand) []int32 { return []int32{1 + rnd.Int32N(9), 5, 5} },
		Caller:     func(*history.Policy, *rand.Rand, time.Duration) *history.Caller { return &history.Caller{User: "eve"} },
		Overridden: func(*history.Policy, *rand.Rand) int32 { return 4 },
	})
	require.NoError(t, err)
	return e
}

// What became of a change without an answer is found out, as far as it can be.
func TestEditorFindsOutWhatBecame(t *testing.T) {
	uncertain := func(does bool) func(func()) string {
		return func(apply func()) string {
			if does {
				apply()
			}
			return "-UNCERTAIN the decision may have been taken\r\n"
		}
	}
	closed := func(apply func()) string { apply(); return "" }
	refused := func(func()) string { return "-CLUSTERDOWN no leader is known\r\n" }
	s := &policyServer{rates: map[string]string{}}
	e := newEditor(t, s)
	s.next = append(s.next, uncertain(true), closed, uncertain(false), refused)
	want := []struct {
		outcome history.Outcome
		version uint64
	}{{history.Admitted, 2}, {history.Admitted, 3}, {history.Unknown, 0}, {history.Refused, 0}, {history.Admitted, 4}}
	for range want {
		if e.look[trio.Name] {
			require.True(t, e.Read(trio.Name))
		}
		e.set(&trio)
	}
	require.Len(t, e.edits, 1+len(want))
	for i, w := range want {
		ed := e.edits[1+i]
		require.Equal(t, w.outcome, ed.Outcome, i)
		require.Equal(t, w.version, ed.Version, i)
		require.Equal(t, i == 4, ed.Acknowledged, i)
	}

	// Somebody else has been faster: what was sent first, and came late.
	late := e.edits[3]
	s.texts = append(s.texts, late.Text)
	e.edits[3].Base = 4
	e.set(&trio)
	require.Equal(t, history.Refused, e.edits[6].Outcome)
	require.True(t, e.look[trio.Name])
	require.True(t, e.Read(trio.Name))
	require.Equal(t, history.Admitted, e.edits[3].Outcome)
	require.EqualValues(t, 5, e.edits[3].Version)
	e.set(&trio)
	require.EqualValues(t, 6, e.edits[7].Version)

	var h history.History
	e.Into(&h)
	require.Len(t, h.Edits, 8)
	require.Len(t, h.Seen, 3)
}

// Of an override whose fate is open there are no further edits until it was seen.
func TestEditorLeavesOpenOverrides(t *testing.T) {
	s := &policyServer{rates: map[string]string{}}
	e := newEditor(t, s)
	s.next = append(s.next, func(func()) string { return "-UNCERTAIN the decision may have been taken\r\n" })
	for e.edits[len(e.edits)-1].Kind != history.SetOverride {
		e.override(&trio) // some end what is not there
	}
	n := len(e.edits) - 1
	ed := &e.edits[n]
	require.Equal(t, history.Unknown, ed.Outcome)
	e.override(&trio)
	require.Len(t, e.edits, n+1)
	require.True(t, e.readOverride(n))
	require.Equal(t, history.Unknown, ed.Outcome)
	s.rates["eve"] = number(ed.Amounts[0]) + "/d"
	require.True(t, e.readOverride(n))
	require.Equal(t, history.Admitted, ed.Outcome)
	require.False(t, ed.Acknowledged)
	require.NotEqual(t, ed.Amounts[0], e.another(&trio, "eve"))
}

// While it pauses it changes nothing.
func TestEditorPauses(t *testing.T) {
	s := &policyServer{rates: map[string]string{}}
	e := newEditor(t, s)
	e.cfg.Every = time.Millisecond
	e.Start()
	require.Eventually(t, func() bool {
		e.Pause()
		defer e.Resume()
		return len(e.edits) > 2
	}, 20*time.Second, 5*time.Millisecond)
	e.Pause()
	n := len(e.edits)
	time.Sleep(20 * time.Millisecond)
	require.Len(t, e.edits, n)
	e.Stop()
}
