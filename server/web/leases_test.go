package web_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

func TestLeases(t *testing.T) {
	clock, set := engine.NewManualClock(1_800_000_000_000_000_000)
	r := newRig(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}, web.Config{})
	const first = `{"key":"k","limit":1000,"period":"1s","id":"a","seq":1,"want":100}`
	require.JSONEq(t, `{"allowed":true,"limit":1000,"remaining":899,"retry_after_ms":0,"reset_after_ms":101,"delay_ms":0,
		"granted":101,"ttl_ms":2000,"refill":0,"refill_ms":0,"holders":1,"degraded":false}`, r.post("/v1/lease", first).ok(t, 200).body)
	again := r.post("/v1/lease", first).ok(t, 400).decode(t)
	require.Equal(t, "ERR", again["code"])
	require.Contains(t, again["detail"], "seq must be greater")
	set(1_800_000_000_100_000_000)
	require.JSONEq(t, `{"returned":70}`, r.post("/v1/return", `{"key":"k","id":"a","seq":2,"held":70}`).ok(t, 200).body)
	require.JSONEq(t, `{"returned":0}`, r.post("/v1/return", `{"key":"k","id":"a","seq":3,"held":70}`).ok(t, 200).body)
	denied := r.post("/v1/lease", `{"key":"k","limit":1000,"period":1,"id":"a","seq":18446744073709551615,"want":0,"need":2000,"burst":null}`).ok(t, 200).decode(t)
	require.Equal(t, false, denied["allowed"])

	for body, detail := range map[string]string{
		`{}`:                                     "key is missing",
		`{"key":"k"}`:                            "id is missing",
		`{"key":"k","id":"a"}`:                   "seq is missing",
		`{"key":"k","id":"a","seq":1}`:           "limit is missing",
		first[:len(first)-1] + `,"x":1}`:         `unknown field \"x\"`,
		first[:len(first)-1] + `,"seq":2}`:       "duplicate object member name",
		`{"key":"k","id":"a","seq":1,"limit":1}`: "period is missing",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s"}`:                            "wrong number of arguments",
		`{"key":"k","id":"a","seq":-1,"limit":1,"period":"1s","want":1}`:                  "SEQ must be an integer from 1",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s","want":-1}`:                  "WANT, HELD and NEED must be integers",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s","want":1.5}`:                 "want: expected a whole number",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s","want":1,"ttl":"1h"}`:        "ttl 100 ms to 60 s",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s","want":1,"algorithm":"lru"}`: "lru",
		`{"key":"k","id":"a","seq":1,"limit":1,"period":"1s","want":1,"sync":"yes"}`:      "sync: true or false is expected",
	} {
		require.Contains(t, r.post("/v1/lease", body).ok(t, 400).body, detail, body)
	}
	for body, detail := range map[string]string{
		`{"key":"k","id":"a"}`:                             "seq is missing",
		`{"key":"k","id":"a","seq":1}`:                     "wrong number of arguments",
		`{"key":"k","id":"a","seq":1,"held":-1}`:           "WANT, HELD and NEED must be integers",
		`{"key":"k","id":"a","seq":1,"held":1,"ttl":"1s"}`: `unknown field \"ttl\"`,
	} {
		require.Contains(t, r.post("/v1/return", body).ok(t, 400).body, detail, body)
	}
}

// Random requests about leases get the same answers over HTTP and by the Redis protocol.
func TestLeasesAnswerAlike(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &randomCalls{Rand: rand.New(rand.NewPCG(seed, 0))}
	now := int64(1_800_000_000_000_000_000)
	clock, set := engine.NewManualClock(now)
	newEqual := func() *rig {
		return newRig(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}, web.Config{})
	}
	plain, front := newEqual(), newEqual()
	client := dialRESP(t, plain.server)
	answers := map[string]int{}
	for range 1000 {
		now += r.Int64N(int64(300 * time.Millisecond))
		set(now)
		args, fields := r.lease()
		path := "/v1/" + strings.ToLower(strings.TrimPrefix(args[0], "RL."))
		a := front.post(path, "{"+strings.Join(fields, ",")+"}")
		reply := client.do(args...)
		w := &wanted{t: t, call: &equalCall{verb: "LEASE"}, reply: reply}
		switch {
		case reply.Error() != "":
			w.code, w.text, _ = strings.Cut(reply.Error(), " ")
			w.sameProblem(a.decode(t))
		case reply.Type == ':':
			require.JSONEq(t, fmt.Sprintf(`{"returned":%d}`, reply.Int), a.body)
		default:
			w.json = asJSON(&reply).(map[string]any)
			w.json["degraded"] = false
			w.sameVerdict([]byte(a.body))
		}
		answers[fmt.Sprintf("%s %v", args[0], w.code == "")]++
	}
	t.Log(answers)
	require.Len(t, answers, 4, "both commands pass and fail")
}

// lease is a random RL.LEASE or RL.RETURN, as arguments and as members of an object.
func (r *randomCalls) lease() (args []string, fields []string) {
	text := func(name, value string) { fields = append(fields, strconv.Quote(name)+":"+strconv.Quote(value)) }
	number := func(name string, n int) { fields = append(fields, strconv.Quote(name)+":"+strconv.Itoa(n)) }
	option := func(name string, n int) {
		args = append(args, strings.ToUpper(name), strconv.Itoa(n))
		number(name, n)
	}
	key, id := "k"+strconv.Itoa(r.IntN(4)), "h"+strconv.Itoa(r.IntN(3))
	text("key", key)
	text("id", id)
	r.named += r.IntN(2)
	if r.IntN(4) == 0 {
		args = []string{"RL.RETURN", key, "ID", id}
		option("seq", r.named)
		option("held", r.IntN(40)-1)
		return args, fields
	}
	limit := 10 * (1 + r.IntN(100))
	args = []string{"RL.LEASE", key, strconv.Itoa(limit), "1s", "ID", id}
	number("limit", limit)
	text("period", "1s")
	option("seq", r.named)
	option("want", r.IntN(400))
	for _, name := range []string{"held", "need", "burst"} {
		if r.IntN(3) == 0 {
			option(name, r.IntN(300))
		}
	}
	choose := func(name string, values ...string) {
		value := r.of(values...)
		args = append(args, strings.ToUpper(name), value)
		text(name, value)
	}
	if r.IntN(2) == 0 {
		choose("ttl", "100ms", "1s", "60s", "2h")
	}
	if r.IntN(3) == 0 {
		choose("algorithm", "token", "fixed", "sliding", "leaky", "log")
	}
	switch r.IntN(6) {
	case 0:
		choose("fail", "open", "closed", "local", "shut")
	case 1:
		args = append(args, "SYNC")
		fields = append(fields, `"sync":true`)
	case 2:
		args = append(args, "ASYNC")
		fields = append(fields, `"sync":false`)
	}
	return args, fields
}

func TestLeasesOfPolicies(t *testing.T) {
	clock, set := engine.NewManualClock(1_800_000_000_000_000_000)
	r := newRig(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}, web.Config{})
	r.run("RL.POLICY", "SET", "p", `{limits: {user: {by: user, rate: 100/1m}, all: {rate: 1000/1m}}}`)
	require.JSONEq(t, `{"allowed":true,"limit":100,"remaining":74,"retry_after_ms":0,"reset_after_ms":15600,"delay_ms":0,
		"granted":26,"ttl_ms":2000,"refill":0,"refill_ms":0,"holders":1,"degraded":false}`,
		r.post("/v1/lease", `{"policy":"p","attributes":{"user":"eve"},"id":"a","seq":1,"want":100}`).ok(t, 200).body)
	set(1_800_000_000_100_000_000)
	require.JSONEq(t, `{"returned":20}`, r.post("/v1/return", `{"policy":"p","attributes":{"user":"eve"},"id":"a","seq":2,"held":20}`).ok(t, 200).body)
	for body, detail := range map[string]string{
		`{"policy":"p","key":"k","id":"a","seq":3,"want":1}`:                         "exclude key",
		`{"policy":"p","burst":5,"id":"a","seq":3,"want":1}`:                         "exclude key",
		`{"attributes":{"user":"eve"},"key":"k","id":"a","seq":3,"want":1}`:          "exclude key",
		`{"policy":"p","attributes":{"want":"eve"},"id":"a","seq":3,"want":1}`:       "is an option",
		`{"policy":"p","attributes":{"user":"eve"},"id":"a","seq":3}`:                "needs ID, SEQ and WANT",
		`{"policy":"p","attributes":{"user":"eve"},"id":"a","seq":3,"held":3}`:       "needs ID, SEQ and WANT",
		`{"policy":"p","attributes":{"user":"eve"},"id":"a","seq":3,"want":1,"x":1}`: `unknown field`,
	} {
		require.Contains(t, r.post("/v1/lease", body).ok(t, 400).body, detail, body)
	}
	require.Contains(t, r.post("/v1/lease", `{"policy":"q","id":"a","seq":3,"want":1}`).ok(t, 404).body, "q")
}
