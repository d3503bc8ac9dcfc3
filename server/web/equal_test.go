package web_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
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

var equalCalls = flag.Int("calls", 0, "how many random `calls` that every front can make are made; 0 is few")

// Random calls, each to servers of their own, on one clock, get the same answer by the Redis
// protocol, as JSON, in batches, by routes of a gateway and over gRPC. That holds for every
// field and header field that they have. A call that a front cannot express is made by a
// command, so that all count the same calls.
//
//	go test ./server/web -run TestAllFrontsAnswerAlike -calls 100000 -v
func TestAllFrontsAnswerAlike(t *testing.T) {
	calls := *equalCalls
	switch {
	case calls > 0:
	case testing.Short():
		calls = 300
	default:
		calls = 1000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &randomCalls{Rand: rand.New(rand.NewPCG(seed, 0))}
	now := int64(1_800_000_000_000_000_000)
	clock, set := engine.NewManualClock(now)
	var all []*rig
	newEqual := func() *rig {
		rig := newRig(t, server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil)}, web.Config{TrustedProxies: loopback})
		for _, p := range equalPolicies {
			rig.policy(p[0], p[1])
		}
		rig.policy("routes/all", equalRoutes())
		all = append(all, rig)
		return rig
	}
	plain, one, batch, gate, envoy := newEqual(), &jsonFront{rig: newEqual()}, &batchFront{rig: newEqual()}, &gateFront{rig: newEqual(), r: r}, newGateway(t, newEqual())
	client := dialRESP(t, plain.server)
	reasons, asked := map[string]int{}, 0
	// A few calls may not come to an answer that is rare: then there are some more.
	missing := func() []string {
		return slices.DeleteFunc(slices.Clone(equalReasons), func(reason string) bool { return reasons[reason] > 0 })
	}
	for done := 0; done < calls || done < 20*calls && len(missing()) > 0; {
		now += r.pass()
		set(now)
		if r.IntN(3) == 0 {
			change := r.change()
			want := client.do(change...)
			for _, rig := range all[1:] {
				require.Equal(t, want.Error(), rig.run(change...).Error(), change)
			}
		}
		n := 1 + r.IntN(150) // at one time
		for range n {
			c := r.next()
			w := newWanted(t, c, client.do(c.args()...))
			reasons[w.reason()]++
			asked++
			one.ask(w)
			batch.add(w)
			if byGate, byEnvoy := gate.ask(w), envoy.ask(w); byGate && byEnvoy {
				done++
			}
		}
		batch.flush()
	}
	t.Logf("%d by the Redis protocol, %d as JSON, %d in batches, %d by gateways, %d over gRPC; %v", asked, one.asked, batch.asked, gate.asked, envoy.asked, reasons)
	require.Empty(t, missing())
}

// equalReasons are what calls are to be answered with.
var equalReasons = []string{"ok", "none", "limit", "missing", "penalty", "deny", "allow", "committed", "cancelled", "NOPOLICY", "NOHOLD", "ERR", "over_limit"}

// pass is how much time passes: seconds, now and then hours or weeks, for calendars.
func (r *randomCalls) pass() int64 {
	switch n := r.IntN(60); n {
	case 0:
		return r.Int64N(int64(20 * time.Hour))
	case 1:
		return r.Int64N(int64(40 * 24 * time.Hour))
	}
	return r.Int64N(int64(3 * time.Second))
}

// change is one of policies and overrides.
func (r *randomCalls) change() []string {
	policy := r.of("pay", "tiered", "month", "login", "strict", "smooth", "hold")
	user := "u" + strconv.Itoa(r.IntN(8))
	switch r.IntN(6) {
	case 0:
		return []string{"RL.OVERRIDE", "SET", r.of("pay", "tiered", "hold"), "LIMIT", "user", "RATE", r.of("9/m", "unlimited", "blocked", "2/m burst 7"), "user", user}
	case 1:
		return []string{"RL.OVERRIDE", "SET", "tiered", "TIER", r.of("free", "pro", "gold"), "user", user}
	case 2:
		return []string{"RL.OVERRIDE", "SET", policy, "SCALE", r.of("20%", "50%", "100%", "300%")}
	case 3:
		return []string{"RL.OVERRIDE", "DEL", policy, "SCALE"}
	case 4:
		return []string{"RL.OVERRIDE", "DEL", r.of("pay", "tiered", "hold"), "LIMIT", "user", "user", user}
	}
	return []string{"RL.POLICY", "RESET", policy}
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

// wanted is a call, and what the Redis protocol has answered to it.
type wanted struct {
	t     *testing.T
	call  *equalCall
	reply resp.Reply
	code  string // of an error, and its text
	text  string
	json  map[string]any // nil for an error
}

func newWanted(t *testing.T, c *equalCall, reply resp.Reply) *wanted {
	w := &wanted{t: t, call: c, reply: reply}
	if text := reply.Error(); text != "" {
		w.code, w.text, _ = strings.Cut(text, " ")
	} else {
		w.json = asJSON(&reply).(map[string]any)
		w.json["degraded"] = false
	}
	return w
}

// reason is that of a verdict, the code of an error or of a ruling.
func (w *wanted) reason() string {
	for _, name := range []string{"reason", "code"} {
		if f := w.reply.Field(name); f != nil && (w.call.verb != "DESCRIPTORS" || name == "code") {
			return f.Str
		}
	}
	return w.code
}

// asJSON is what a reply is, as encoding/json reads the same in JSON.
func asJSON(r *resp.Reply) any {
	switch r.Type {
	case '%':
		m := map[string]any{}
		for i := 0; i < len(r.Elems); i += 2 {
			name, value := r.Elems[i].Str, asJSON(&r.Elems[i+1])
			if name == "allowed" {
				value = value == json.Number("1")
			}
			m[name] = value
		}
		return m
	case '*':
		list := []any{}
		for i := range r.Elems {
			list = append(list, asJSON(&r.Elems[i]))
		}
		return list
	case ':':
		return json.Number(strconv.FormatInt(r.Int, 10))
	case '_':
		return nil
	}
	return r.Str
}

// sameVerdict demands that a verdict in JSON says all that was replied.
func (w *wanted) sameVerdict(text []byte) {
	require.Equal(w.t, w.json, decodeJSON(w.t, text), "%v", w.call.args())
}

// sameProblem demands that a problem says what the error did.
func (w *wanted) sameProblem(p map[string]any) {
	require.Equal(w.t, w.code, p["code"], "%v: %v", w.call.args(), p)
	require.Equal(w.t, w.text, p["detail"])
	require.Equal(w.t, fmt.Sprint(errorStatus[w.code]), fmt.Sprint(p["status"]), w.code)
}

// decodeJSON reads an object with exact numbers.
func decodeJSON(t *testing.T, text []byte) (out map[string]any) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	require.NoError(t, d.Decode(&out), string(text))
	return out
}
