package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/web"
)

// equalPolicies are those of random calls.
var equalPolicies = map[string]string{
	"pay": `{deny: [{user: u0}], allow: [{user: u1}], limits: {user: {by: user, rate: 5/m, cost: n}, all: {rate: 40/m},
		slow: {by: ip, rate: 3/m, status: 503, missing: deny, when: {kind: [a, b]}}, seen: {by: user, rate: 2/m, mode: soft}, try: {rate: 1/m, mode: shadow}}}`,
	"team/edge": `{limits: {ip: {by: ip, rate: 4/m}, path: {by: [method, host, path], rate: 9/m, algorithm: sliding}}}`,
	"smooth":    `{limits: {out: {by: user, rate: 30/m, algorithm: leaky, wait: 10s}}}`,
}

// equalCall is a random call, as each front is asked.
type equalCall struct {
	policy     string
	attributes map[string]any
	cost       int // -1 for none
	peek       bool
}

func randomCall(r *rand.Rand) equalCall {
	c := equalCall{policy: []string{"pay", "pay", "smooth", "none"}[r.IntN(4)], attributes: map[string]any{}, cost: r.IntN(5) - 1, peek: r.IntN(8) == 0}
	if r.IntN(10) > 0 {
		c.attributes["user"] = "u" + strconv.Itoa(r.IntN(8))
	}
	if r.IntN(3) > 0 {
		c.attributes["ip"] = fmt.Sprintf("203.0.113.%d", r.IntN(4))
	}
	if r.IntN(2) == 0 {
		c.attributes["n"] = r.IntN(4)
	}
	if r.IntN(2) == 0 {
		c.attributes["kind"] = string(rune('a' + r.IntN(3)))
	}
	if r.IntN(50) == 0 {
		c.attributes["n"] = "many"
	}
	return c
}

func (c *equalCall) args() []string {
	args := []string{"RL.CHECK", c.policy}
	for name, value := range c.attributes {
		args = append(args, name, fmt.Sprint(value))
	}
	if c.cost >= 0 {
		args = append(args, "COST", strconv.Itoa(c.cost))
	}
	if c.peek {
		args = append(args, "PEEK")
	}
	return args
}

func (c *equalCall) json(t *testing.T) string {
	fields := map[string]any{"policy": c.policy, "attributes": c.attributes}
	if c.cost >= 0 {
		fields["cost"] = c.cost
	}
	if c.peek {
		fields["peek"] = true
	}
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(text)
}

// respClient is a connection that speaks RESP3.
type respClient struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dialRESP(t *testing.T, s *server.Server) *respClient {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	c := &respClient{t, nc, bufio.NewReader(nc)}
	c.do("HELLO", "3")
	return c
}

func (c *respClient) do(args ...string) resp.Reply {
	_, err := c.Write(resp.AppendCommand(nil, args))
	require.NoError(c.t, err)
	reply, err := resp.ReadReply(c.r, 1<<20)
	require.NoError(c.t, err)
	return reply
}

// asJSON is what the reply of a check is as JSON, an error its text.
func asJSON(t *testing.T, r resp.Reply) string {
	if text := r.Error(); text != "" {
		return text
	}
	var value func(r *resp.Reply) any
	value = func(r *resp.Reply) any {
		switch r.Type {
		case '%':
			m := map[string]any{}
			for i := 0; i < len(r.Elems); i += 2 {
				m[r.Elems[i].Str] = value(&r.Elems[i+1])
			}
			m["allowed"] = m["allowed"] == int64(1)
			return m
		case '*':
			list := []any{}
			for i := range r.Elems {
				list = append(list, value(&r.Elems[i]))
			}
			return list
		case ':':
			return r.Int
		case '_':
			return nil
		}
		return r.Str
	}
	m := value(&r).(map[string]any)
	m["degraded"] = false
	text, err := json.Marshal(m)
	require.NoError(t, err)
	return string(text)
}

// Thousands of random calls, each to servers of their own: by the Redis protocol, as
// JSON, in batches, over gRPC and as a gateway asks, all answer the same.
func TestAllFrontsAnswerAlike(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	clock, set := engine.NewManualClock(1_800_000_000_000_000_000)
	newEqual := func() *rig {
		rig := newRig(t, server.Config{Engine: engine.New(engine.Config{Clock: clock})}, web.Config{TrustedProxies: loopback})
		for name, text := range equalPolicies {
			rig.policy(name, text)
		}
		return rig
	}
	plain, one, batch := newEqual(), newEqual(), newEqual()
	envoy := newGateway(t, newEqual())
	client := dialRESP(t, plain.server)
	calls := 3000
	if testing.Short() {
		calls = 500
	}
	now, passed, denied := int64(1_800_000_000_000_000_000), 0, 0
	for done := 0; done < calls; {
		now += r.Int64N(int64(3 * time.Second))
		set(now)
		if r.IntN(4) == 0 {
			done++
			forwarded(t, r, client, one, batch)
			continue
		}
		// Some calls at one time.
		n := 1 + r.IntN(150)
		var want, inBatch []string
		for range n {
			c := randomCall(r)
			reply := client.do(c.args()...)
			want = append(want, asJSON(t, reply))
			envoy.check(&c, &reply)
			inBatch = append(inBatch, c.json(t))
			a := one.post("/v1/check", inBatch[len(inBatch)-1])
			if a.status == http.StatusOK {
				require.JSONEq(t, want[len(want)-1], a.body)
			} else {
				p := a.decode(t)
				require.Equal(t, want[len(want)-1], fmt.Sprintf("%s %s", p["code"], p["detail"]))
			}
			if strings.Contains(a.body, `"reason":"limit"`) {
				denied++
			} else {
				passed++
			}
		}
		a := batch.post("/v1/check:batch", `{"checks":[`+strings.Join(inBatch, ",")+`]}`)
		require.Equal(t, 200, a.status)
		var results struct {
			Results []struct {
				Verdict json.RawMessage
				Problem struct{ Code, Detail string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(a.body), &results))
		require.Len(t, results.Results, n)
		for i, result := range results.Results {
			if result.Verdict != nil {
				require.JSONEq(t, want[i], string(result.Verdict))
			} else {
				require.Equal(t, want[i], result.Problem.Code+" "+result.Problem.Detail)
			}
		}
		done += n
	}
	require.Greater(t, passed, calls/10)
	require.Greater(t, denied, calls/10)
}

// forwarded asks as a gateway does.
func forwarded(t *testing.T, r *rand.Rand, client *respClient, rigs ...*rig) {
	ip, method, host, path := fmt.Sprintf("203.0.113.%d", r.IntN(3)), []string{"GET", "POST"}[r.IntN(2)], "h"+strconv.Itoa(r.IntN(2)), "/"+strconv.Itoa(r.IntN(3))
	reply := client.do("RL.CHECK", "team/edge", "ip", ip, "method", method, "host", host, "path", path)
	want := 200
	if reply.Field("allowed").Int == 0 {
		want = 429
	}
	for _, rig := range rigs {
		dialect, status := "auth", want
		if r.IntN(2) == 0 {
			if dialect = "auth403"; want == 429 {
				status = 403
			}
		}
		a := rig.request("GET", "/v1/"+dialect+"/team:edge?ip=1", "", "X-Forwarded-For", "9.9.9.9, "+ip, "X-Forwarded-Method", method, "X-Forwarded-Host", host, "X-Forwarded-Uri", path+"?q=/")
		require.Equal(t, status, a.status)
		require.Equal(t, strconv.FormatInt(reply.Field("remaining").Int, 10), a.header.Get("X-RateLimit-Remaining"))
		require.Equal(t, strconv.FormatInt(reply.Field("limit").Int, 10), a.header.Get("X-RateLimit-Limit"))
		require.True(t, strings.HasPrefix(a.header.Get("RateLimit"), `"`+reply.Field("name").Str+`";`), a.header.Get("RateLimit"))
		if want == 200 {
			require.Empty(t, a.header.Get("Retry-After"))
			continue
		}
		wait := reply.Field("retry_after_ms").Int
		after, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, 1000*after, wait)
		require.LessOrEqual(t, 1000*after, wait+max(2000, wait/10)+1000)
	}
}
