package checks_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/verdict"
)

// envoyRig is a rig that is asked as Envoy's front asks.
type envoyRig struct{ *rig.Rig }

func newEnvoyRig(t testing.TB, policies ...string) envoyRig {
	r := envoyRig{rig.New(t, engine.Config{})}
	for i := 0; i < len(policies); i += 2 {
		r.SetPolicy(policies[i], policies[i+1])
	}
	r.Raw("HELLO", "3")
	return r
}

// descriptor reads "key=value,key=value hits limit", the last two of which may be
// left out or -.
func descriptor(t testing.TB, text string) (d verdict.Descriptor) {
	t.Helper()
	words := strings.Fields(text)
	for entry := range strings.SplitSeq(words[0], ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, verdict.Attribute{Name: key, Value: value})
	}
	if len(words) > 1 && words[1] != "-" {
		_, err := fmt.Sscan(words[1], &d.Hits)
		require.NoError(t, err)
		d.HasHits = true
	}
	if len(words) > 2 {
		d.Limit = &verdict.RateLimit{}
		_, err := fmt.Sscanf(strings.NewReplacer("/", " ", "*", " ").Replace(words[2]+"*1"), "%d %s %d", &d.Limit.Requests, &d.Limit.Unit, &d.Limit.Multiplier)
		require.NoError(t, err)
	}
	return d
}

// ask sends a request of hits and descriptors.
func (r envoyRig) ask(domain string, hits uint32, descriptors ...string) verdict.Ruling {
	r.T.Helper()
	q := verdict.Descriptors{Domain: domain, Hits: hits}
	for _, text := range descriptors {
		q.Descriptors = append(q.Descriptors, descriptor(r.T, text))
	}
	return r.rule(&q)
}

func (r envoyRig) rule(q *verdict.Descriptors) (v verdict.Ruling) {
	r.T.Helper()
	command, err := q.Append(nil)
	require.NoError(r.T, err)
	r.Send(string(command))
	rest, err := v.Read([]byte(r.Bytes()))
	require.NoError(r.T, err)
	require.Empty(r.T, rest)
	require.Len(r.T, v.Statuses, len(q.Descriptors))
	return v
}

// ruled writes a ruling: the overall code, and of each descriptor its code and what
// is left.
func ruled(v verdict.Ruling) string {
	code := func(over bool) string {
		if over {
			return "over"
		}
		return "ok"
	}
	s := code(v.Over)
	for _, d := range v.Statuses {
		s += fmt.Sprintf(" %s:%d", code(d.Over), d.Remaining)
	}
	return s
}

// gets asks once and expects what it says.
func (r envoyRig) gets(want, domain string, hits uint32, descriptors ...string) verdict.Ruling {
	r.T.Helper()
	v := r.ask(domain, hits, descriptors...)
	require.Equal(r.T, want, ruled(v), "%v", descriptors)
	return v
}

func TestDescriptorsCountDown(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, value: v, rate_limit: {unit: minute, requests_per_unit: 20, name: twenty}},
		{key: two, rate_limit: {unit: MINUTE, requests_per_unit: 20}}, {key: hour, rate_limit: {unit: hour, requests_per_unit: 10}}]}`)
	r.At(15 * time.Second)
	for i := range 25 {
		v := r.ask("rl", 0, "k=v")
		s := v.Statuses[0]
		require.Equal(t, i >= 20, v.Over)
		require.Equal(t, i >= 20, s.Over)
		require.EqualValues(t, max(19-i, 0), s.Remaining)
		require.EqualValues(t, 20, s.Requests)
		require.Equal(t, "minute", string(s.Unit))
		require.Equal(t, "twenty", string(s.Name))
		require.EqualValues(t, 1, s.Multiplier)
		require.EqualValues(t, 45_000, s.ResetMS)
		require.Equal(t, 0, v.Binding)
	}
	r.At(time.Minute)
	r.gets("ok ok:19", "rl", 0, "k=v")
	for i := range 15 {
		v := r.ask("rl", 0, "two=a", "hour=a")
		require.Equal(t, i >= 10, v.Over)
		require.False(t, v.Statuses[0].Over)
		require.EqualValues(t, 19-i, v.Statuses[0].Remaining, "denied calls count")
		require.Equal(t, i >= 10, v.Statuses[1].Over)
		require.Equal(t, 1, v.Binding)
	}
}

func TestDescriptorsAreLookedUp(t *testing.T) {
	const limit = "rate_limit: {unit: hour, requests_per_unit: %d, name: r%[1]d}"
	text := `{descriptors: [
		{key: path, value: "files*", rate_limit: {unit: hour, requests_per_unit: 10}, share_threshold: true},
		{key: bar, value: "bar*b", LIMIT 1},
		{key: foo, value: "foo*bar*baz", LIMIT 2},
		{key: o, value: "a*", LIMIT 3}, {key: o, value: "*b", LIMIT 4}, {key: o, value: "ab", LIMIT 5}, {key: o, LIMIT 6},
		{key: deep, value: x, LIMIT 7, descriptors: [{key: b, LIMIT 8}, {key: c, descriptors: [{key: d, LIMIT 9}]}]},
		{key: deep, descriptors: [{key: b, value: only, LIMIT 11}]}]}`
	for i := 11; i > 0; i-- {
		text = strings.ReplaceAll(text, fmt.Sprintf("LIMIT %d", i), fmt.Sprintf(limit, i))
	}
	r := newEnvoyRig(t, "rl", text)
	for range 5 {
		require.False(t, r.ask("rl", 0, "path=files/a").Over)
		require.False(t, r.ask("rl", 0, "path=files/b").Over)
	}
	require.True(t, r.ask("rl", 0, "path=files/c").Over, "one counter")
	for entries, want := range map[string]string{
		"bar=barb": "r1", "bar=bar-b": "r1", "bar=bara": "", "bar=xbarb": "", "foo=foobarbaz": "r2", "foo=foo/bar/baz": "r2", "foo=foobar": "",
		"o=ab": "r5", "o=axb": "r3", "o=xb": "r4", "o=x": "r6", "o=": "r6",
		"deep=x": "r7", "deep=y": "", "deep=x,b=1": "r8", "deep=x,c=1": "", "deep=x,c=1,d=1": "r9", "deep=x,b=1,d=1": "",
		"deep=y,b=only":   "r11",
		"deep=x,b=only":   "r8", // and not back to deep without a value
		"deep=x,b=1,e=1":  "",
		"unknown=1":       "",
		"deep=x,unknown=": "",
	} {
		s := r.ask("rl", 0, entries).Statuses[0]
		require.Equal(t, want, string(s.Name), entries)
		require.Equal(t, want == "", s.Unmatched, entries)
		require.Equal(t, want != "", s.Limited, entries)
		if want == "" {
			require.Zero(t, s.Remaining)
		}
	}
	reply := r.Raw("RL.DESCRIPTORS", "nobody", "0", "1", "1", "k", "v", "-", "-")
	require.Contains(t, reply, "-NOPOLICY")
}

func TestDescriptorsOfManyKinds(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [
		{key: q, value: one, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}},
		{key: q, value: two, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}},
		{key: plain, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {tier: gold, n: 3, list: [true, "a"]}},
		{key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}},
		{key: banned, rate_limit: {unit: minute, requests_per_unit: 0, name: ban}},
		{key: over, rate_limit: {unit: minute, requests_per_unit: 2, replaces: [{name: ban}, {name: nobody}]}},
		{key: free, rate_limit: {unlimited: true, replaces: [{name: ban}]}}]}`)
	for _, want := range []string{"ok ok:0 ok:1", "ok ok:0 ok:0", "over over:0 over:0"} {
		r.gets(want, "rl", 0, "q=one", "q=two")
	}
	v := r.gets("ok ok:0", "rl", 0, "plain=a")
	require.JSONEq(t, `{"tier": "gold", "n": 3, "list": [true, "a"]}`, string(v.Statuses[0].Metadata))
	require.Empty(t, r.gets("over over:0", "rl", 0, "plain=a").Statuses[0].Metadata)
	for i := range 5 {
		v := r.gets(fmt.Sprintf("ok ok:%d", max(2-i, 0)), "rl", 0, "shadow=a")
		require.Equal(t, i >= 3, v.Statuses[0].Exceeded)
		require.True(t, v.Statuses[0].Shadow)
	}
	r.gets("over over:0", "rl", 0, "banned=a")
	for i, want := range []string{"ok ok:0 ok:1", "ok ok:0 ok:0", "over ok:0 over:0"} {
		v := r.gets(want, "rl", 0, "banned=b", "over=b")
		require.True(t, v.Statuses[0].Replaced, i)
		require.False(t, v.Statuses[0].Limited, i)
	}
	v = r.gets("ok ok:0 ok:4294967295", "rl", 0, "banned=b", "free=b")
	require.True(t, v.Statuses[1].Unlimited)
	require.False(t, v.Statuses[1].Limited)
	require.Equal(t, -1, v.Binding)
}

// RL.OVERRIDE SCALE turns descriptors up and down, rounded up, but those of a day and
// longer and those that requests bring.
func TestDescriptorsScaled(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 9}}, {key: none, rate_limit: {unit: hour, requests_per_unit: 0}},
		{key: much, rate_limit: {unit: second, requests_per_unit: 4294967295}}, {key: day, rate_limit: {unit: day, requests_per_unit: 9}}]}`)
	r.gets("ok ok:7 ok:8", "rl", 0, "k=a 2", "day=a")
	r.Is(fmt.Sprintf("RL.OVERRIDE SET rl SCALE 40%% UNTIL %d", rig.Start/1e9+5), "OK")
	v := r.gets("over ok:1 ok:7 ok:4 over:0", "rl", 0, "k=a", "day=a", "k=x - 5/hour", "none=a")
	require.EqualValues(t, 4, v.Statuses[0].Requests)
	require.EqualValues(t, 9, v.Statuses[1].Requests)
	require.Equal(t, "4", fmt.Sprint(rig.Pair(t, r.Words("RL.EXPLAIN POLICY rl k a"), "limit")))
	r.gets("over over:0", "rl", 0, "k=a 2")
	require.Equal(t, "0", fmt.Sprint(rig.Pair(t, r.Words("RL.OVERRIDE LIST rl").([]any)[0], "sleeps")))
	r.At(5 * time.Second)
	r.gets("ok ok:3", "rl", 0, "k=a")
	r.Is("RL.OVERRIDE SET rl SCALE 200%", "OK")
	v = r.gets("over ok:11 ok:4294967294 over:0", "rl", 0, "k=a", "much=a", "none=b")
	require.EqualValues(t, math.MaxUint32, v.Statuses[1].Requests)
	r.Is("RL.OVERRIDE DEL rl SCALE", "1")
	r.gets("ok ok:1", "rl", 0, "k=a")
}

func TestDescriptorsHits(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: 10}}, {key: none, rate_limit: {unit: minute, requests_per_unit: 0}}]}`)
	r.gets("ok ok:9", "rl", 0, "k=a")        // 0 of a request is 1
	r.gets("ok ok:7", "rl", 2, "k=a")        // of the request
	r.gets("ok ok:3", "rl", 2, "k=a 4")      // of the descriptor
	r.gets("ok ok:3", "rl", 2, "k=a 0")      // which may be 0
	r.gets("ok ok:0", "rl", 0, "k=a 3")      //
	r.gets("ok ok:0", "rl", 0, "k=a 0")      // at the limit a look passes
	r.gets("over over:0", "rl", 0, "k=a 5")  // the late charge counts
	r.gets("over over:0", "rl", 0, "k=a 0")  // in debt it does not
	r.gets("ok ok:0", "rl", 0, "k=a -5")     // given back: 10 of 10
	r.gets("ok ok:0", "rl", 0, "k=a 0")      //
	r.gets("ok ok:10", "rl", 0, "k=a -99")   // and never below 0
	r.gets("ok ok:6", "rl", 0, "k=a 4")      //
	r.gets("over over:0", "rl", 0, "k=b 11") // more than the limit at once
	r.gets("ok ok:0", "rl", 0, "none=a 0")   // of nothing, nothing is fine
	r.gets("over over:0", "rl", 0, "none=a") //
	r.gets("over over:0", "rl", 0, "none=a 0")
	r.gets("over ok:4 ok:0 over:0 ok:6", "rl", 0, "k=dup 6", "k=dup 4", "k=dup 1", "k=a 0") // one counter, in order
	r.gets("over over:0", "rl", 0, fmt.Sprintf("k=huge %d", math.MaxInt64))
	r.gets("over over:0", "rl", 0, fmt.Sprintf("k=huge %d", math.MaxInt64))
	r.gets("ok ok:10", "rl", 0, fmt.Sprintf("k=huge %d", int64(math.MinInt64)))
	huge := fmt.Sprintf("k=many %d", int64(1<<62-1)) // the sum of which is bounded
	r.gets("over over:0 over:0 over:0", "rl", 0, huge, huge, huge)
	r.gets("ok ok:10 ok:7", "rl", 0, fmt.Sprintf("k=many %d", int64(math.MinInt64)), "k=many 3")
	command := verdict.Descriptors{Domain: "rl", Descriptors: []verdict.Descriptor{descriptor(t, "k=a")}, Peek: true}
	require.Equal(t, "ok ok:5", ruled(r.rule(&command)))
	require.Equal(t, "ok ok:5", ruled(r.rule(&command)), "a look counts nothing")
}

func TestDescriptorsWithLimitsOfTheirOwn(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2, name: n}}]}`)
	r.gets("ok ok:1", "rl", 0, "k=a")
	v := r.gets("ok ok:8", "rl", 0, "k=a - 10/minute") // the counter is the same
	require.Empty(t, v.Statuses[0].Name)
	require.EqualValues(t, 10, v.Statuses[0].Requests)
	r.gets("over over:0", "rl", 0, "k=a - 1/minute")
	r.gets("ok ok:9", "rl", 0, "unknown=a - 10/hour")
	v = r.gets("ok ok:9", "rl", 0, "unknown=a - 10/second*90") // another length, another counter
	require.EqualValues(t, 90, v.Statuses[0].Multiplier)
	require.EqualValues(t, 90_000, v.Statuses[0].ResetMS)
	r.gets("over over:0", "rl", 0, "unknown=a - 0/second")
}

// A policy with limits takes the entries of each descriptor as attributes.
func TestDescriptorsOfPoliciesWithLimits(t *testing.T) {
	r := newEnvoyRig(t, "p", `{attributes: {remote_address: {type: ip}}, deny: [{key: bad}], allow: [{key: good}], limits: {
		address: {by: remote_address, rate: 3/m, algorithm: fixed}, key: {by: key, rate: 2/h, algorithm: fixed}, all: {rate: 100/90s, algorithm: fixed}}}`)
	v := r.gets("ok ok:2 ok:1", "p", 0, "remote_address=192.0.2.1", "key=a")
	require.Equal(t, "address", string(v.Statuses[0].Name))
	require.Equal(t, "minute", string(v.Statuses[0].Unit))
	require.Equal(t, 1, v.Binding)
	r.gets("ok ok:1 ok:0", "p", 0, "remote_address=::ffff:192.0.2.1", "key=a")
	v = r.gets("over ok:1 over:0", "p", 0, "remote_address=192.0.2.1", "key=a")
	require.Equal(t, "limit", string(v.Reason))
	require.EqualValues(t, 3_600_000, v.Statuses[1].RetryMS)
	r.gets("ok ok:1", "p", 0, "remote_address=192.0.2.1 0") // nothing was charged
	v = r.gets("ok ok:98", "p", 0, "unknown=x 0")
	require.Equal(t, "all", string(v.Statuses[0].Name), "two requests of two descriptors are two calls")
	require.Equal(t, "second", string(v.Statuses[0].Unit))
	require.EqualValues(t, 90, v.Statuses[0].Multiplier)
	v = r.gets("over ok:3 over:0", "p", 0, "remote_address=192.0.2.2", "key=bad")
	require.Equal(t, "deny", string(v.Reason))
	require.EqualValues(t, verdict.Never, v.Statuses[1].RetryMS)
	require.Equal(t, "allow", string(r.gets("ok ok:4294967295", "p", 0, "key=good").Reason))
	for line, want := range map[string]string{
		"p 0 1 1 key a -1 -":            "-ERR hits below 0 need a policy with descriptors",
		"p 0 1 1 key a - 1/minute":      "-ERR a limit in the request needs a policy with descriptors",
		"p 0 1 1 KEY a - -":             "-ERR \"KEY\" does not name an attribute",
		"p 0 1 1 key a - 1/fortnight":   "-ERR the limit of a descriptor must be",
		"p 0 1 1 key a x -":             "-ERR hits of a descriptor",
		"p 0 2 1 key a - -":             "-ERR syntax error, arguments of a descriptor are missing",
		"p 0 1 1 key a - - COST 2":      "-ERR syntax error, unknown option 'COST'",
		"p 0 1 1 key a - - FAIL maybe":  "-ERR FAIL must be",
		"p -1 1 1 key a - -":            "-ERR hits of a request",
		"p 0 65 1 key a - -":            "-ERR a request must have 1 to 64 descriptors",
		"p 0 1 33 key a - -":            "-ERR a descriptor has 1 to 32 entries",
		"p 0 1 1 key a - 1/second*0":    "-ERR the limit of a descriptor must be",
		"p 0 1 1 key a - 1/year*101":    "-ERR a period is above 0",
		"p 0 1 1 key a - 5000000000/m ": "-ERR the limit of a descriptor must be",
	} {
		reply := r.Raw(append([]string{"RL.DESCRIPTORS"}, strings.Fields(line)...)...)
		require.True(t, strings.HasPrefix(reply, want), "%s: %s", line, reply)
	}
	require.Contains(t, r.Raw("RL.CHECK", "p", "key", "b"), "allowed")
	r.SetPolicy("d", "{descriptors: []}")
	require.Equal(t, "-ERR policy 'd' has descriptors: ask it with RL.DESCRIPTORS\r\n", r.Raw("RL.CHECK", "d", "key", "b"))
}

// Transactions and scripts ask too, as one step of theirs; a script that only reads
// does not.
func TestDescriptorsInTransactionsAndScripts(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 3}}]}`)
	const ask = "RL.DESCRIPTORS rl 0 1 1 k a - -"
	for _, line := range []string{"MULTI", ask, ask, "EXEC"} {
		r.Words(line)
	}
	r.gets("ok ok:1", "rl", 0, "k=a 0")
	eval := func(command string) string {
		return r.Raw(append([]string{command, `return redis.call("RL.DESCRIPTORS", unpack(ARGV))`, "0"}, strings.Fields(ask)[1:]...)...)
	}
	require.Contains(t, eval("EVAL"), "*5\r\n$2\r\nok\r\n", "a script has the values alone")
	require.Contains(t, eval("EVAL_RO"), "Write commands are not allowed")
	r.gets("ok ok:0", "rl", 0, "k=a 0")
	require.Contains(t, eval("EVAL"), "$10\r\nover_limit\r\n")
}

// Counters outlast an edit, and end with a reset.
func TestDescriptorsEdited(t *testing.T) {
	text := func(requests, hour int) string {
		return fmt.Sprintf("{descriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: %d}}, {key: h, rate_limit: {unit: hour, requests_per_unit: %d}}]}", requests, hour)
	}
	r := newEnvoyRig(t, "rl", text(10, 10))
	r.gets("ok ok:5 ok:9 ok:9", "rl", 0, "k=a 5", "k=b", "h=a")
	r.SetPolicy("rl", text(6, 10))
	r.gets("ok ok:1 ok:9", "rl", 0, "k=a 0", "h=a 0")
	require.IsType(t, int64(0), r.Parse(r.Raw("RL.POLICY", "SET", "rl", "CHANGE", "PROPORTIONAL", text(12, 10))))
	r.gets("ok ok:6", "rl", 0, "k=a 0") // it was charged 5 of 10
	require.EqualValues(t, 1, r.Parse(r.Raw("RL.POLICY", "RESET", "rl", "k", "a")))
	require.EqualValues(t, 0, r.Parse(r.Raw("RL.POLICY", "RESET", "rl", "k", "c")))
	r.gets("ok ok:12 ok:10", "rl", 0, "k=a 0", "k=b 0")
	require.IsType(t, int64(0), r.Parse(r.Raw("RL.POLICY", "SET", "rl", "CHANGE", "RESET", text(11, 10))))
	r.gets("ok ok:11 ok:10", "rl", 0, "k=b 0", "h=a 0")
	r.gets("ok ok:1", "rl", 0, "k=b 10")
	require.IsType(t, int64(0), r.Parse(r.Raw("RL.POLICY", "RESET", "rl")))
	r.gets("ok ok:11", "rl", 0, "k=b 0")
}

// A reader skips fields of a later release, and refuses a reply that is no ruling.
func TestRulingsAreRead(t *testing.T) {
	r := newEnvoyRig(t, "rl", "{descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}]}")
	reply := r.Raw("RL.DESCRIPTORS", "rl", "0", "2", "1", "k", "v", "-", "-", "1", "x", "y", "-", "-")
	var v verdict.Ruling
	for n := range len(reply) {
		_, err := v.Read([]byte(reply[:n]))
		require.Error(t, err, n)
	}
	rest, err := v.Read([]byte(strings.Replace(reply, "%5\r\n", "%6\r\n$5\r\nlater\r\n*1\r\n:1\r\n", 1) + "+OK\r\n"))
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", string(rest))
	require.Len(t, v.Statuses, 2)
	_, err = v.Read([]byte(strings.Replace(reply, "binding\r\n:0", "binding\r\n:2", 1)))
	require.Error(t, err)
	require.EqualValues(t, 1, verdictCounts(r.Server, "rl", "k").Allowed)
}

// verdictCounts are the counts of a limit.
func verdictCounts(s *server.Server, policy, limit string) (n checks.LimitCount) {
	for _, c := range s.PolicyCounts() {
		if c.Policy == policy && c.Limit == limit {
			n = c
		}
	}
	return n
}

// Values of requests are in the names of counts where the text asks for that, and
// then of a hundred paths.
func TestDescriptorsAreCounted(t *testing.T) {
	r := newEnvoyRig(t, "rl", `{descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2}}, {key: s, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}},
		{key: d, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}}, {key: v, value_to_metric: true, descriptors: [{key: w, rate_limit: {unit: day, requests_per_unit: 9}}]}]}`)
	for range 3 {
		r.ask("rl", 0, "k=a 2", "s=a", "v=1,w=2", "x=y - 5/day")
	}
	for i := range 120 {
		r.ask("rl", 0, fmt.Sprintf("d=%d", i))
	}
	count := func(limit string) checks.LimitCount { return verdictCounts(r.Server, "rl", limit) }
	require.Equal(t, checks.LimitCount{Policy: "rl", Limit: "k", Allowed: 1, Denied: 2, Cost: 2}, count("k"))
	require.EqualValues(t, 3, count("s").Shadow)
	require.EqualValues(t, 3, count("v_1.w").Allowed)
	require.EqualValues(t, 3, count("(request)").Allowed)
	require.EqualValues(t, 1, count("d_0").Allowed)
	require.EqualValues(t, 120-99, count("d").Allowed)
	require.Empty(t, count("d_119"))
}
