package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/decisions"
)

// toldRig is a rig with a decision log.
type toldRig struct {
	*rig
	out *bytes.Buffer
	log *decisions.Log
}

func newToldRig(t *testing.T, plain ...string) toldRig {
	clock, set := engine.NewManualClock(rigStart)
	out := new(bytes.Buffer) // which the log's goroutine alone writes
	log := decisions.New(decisions.Config{Out: out, Logger: slog.New(slog.DiscardHandler), Plain: plain, Key: []byte("k")})
	s := newTestServer(t, Config{
		Parts: One(engine.New(engine.Config{Clock: clock}), nil), Decisions: log, Runtime: Runtime{DecisionsDenied: 1_000_000, DecisionsOneIn: 1},
	}, func() uint64 { return 1 })
	return toldRig{&rig{t: t, s: s, machine: newMachine(s), set: set}, out, log}
}

// told ends the log and returns its lines, without the fields that all have.
func (r toldRig) told() (lines []string) {
	r.log.Close()
	for line := range bytes.Lines(r.out.Bytes()) {
		var one map[string]any
		require.NoError(r.t, json.Unmarshal(line, &one), "%s", line)
		require.Equal(r.t, "redis", one["front"])
		delete(one, "front")
		delete(one, "time")
		text, err := json.Marshal(one) // in the order of the names
		require.NoError(r.t, err)
		lines = append(lines, string(text))
	}
	return lines
}

// Each call of a limit has its line, by what its reply says, in either protocol.
func TestDecisionLog(t *testing.T) {
	for _, resp3 := range []bool{false, true} {
		t.Run(fmt.Sprint("resp3=", resp3), func(t *testing.T) {
			r := newToldRig(t, "*")
			if resp3 {
				r.raw("HELLO", "3")
			}
			r.setPolicy("p", `{deny: [{user: mallory}], limits: {user: {by: user, rate: 2/h}, card: {by: card, rate: 100/h}, trial: {rate: 1/h, mode: shadow}}}`)
			r.setPolicy("s", `{limits: {nice: {by: user, rate: 1/h, mode: soft}, must: {by: kind, rate: 9/h, missing: deny}}}`)
			r.setPolicy("e", `{descriptors: [{key: ip, rate_limit: {unit: hour, requests_per_unit: 2, name: per_ip}}, {key: try, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}]}`)
			var want []string
			calls := func(line, told string) {
				t.Helper()
				for i, a := range strings.Fields(line) {
					if i == 0 {
						told = strings.Replace(told, "{", `{"command":"`+a+`",`, 1)
					}
				}
				r.raw(strings.Fields(line)...)
				want = append(want, told)
			}
			const p, s, e = `"policy":"p"`, `"policy":"s"`, `"policy":"e"`
			calls("RL.CHECK p user eve card 4711", `{"attributes":{"card":"4711","user":"eve"},"cost":1,"limit":"user",`+p+`,"reason":"ok","remaining":1,"result":"allowed","version":1}`)
			calls("RL.CHECK p user eve PEEK", `{"attributes":{"user":"eve"},"cost":1,"limit":"user","peek":true,`+p+`,"reason":"ok","remaining":0,"result":"shadow","version":1,"would_deny":["trial"]}`)
			calls("RL.CHECK p user eve COST 2", `{"attributes":{"user":"eve"},"cost":2,"limit":"user",`+p+`,"reason":"limit","remaining":1,"result":"denied","retry_after_ms":1800000,"version":1,"would_deny":["trial"]}`)
			calls("RL.CHECK p user mallory", `{"attributes":{"user":"mallory"},`+p+`,"reason":"deny","result":"denied","retry_after_ms":-1,"version":1}`)
			calls("RL.CHECK s user bob kind a", `{"attributes":{"kind":"a","user":"bob"},"cost":1,"limit":"must",`+s+`,"reason":"ok","remaining":8,"result":"allowed","version":1}`)
			calls("RL.CHECK s user bob kind a", `{"attributes":{"kind":"a","user":"bob"},"cost":1,"limit":"must",`+s+`,"reason":"ok","remaining":7,"result":"soft","soft":["nice"],"version":1}`)
			calls("RL.CHECK s user bob", `{"attributes":{"user":"bob"},"cost":0,"limit":"must",`+s+`,"reason":"missing","remaining":0,"result":"denied","retry_after_ms":-1,"version":1}`)
			calls("RL.CHECK pya user bob", `{"attributes":{"user":"(redacted)"},"error":"NOPOLICY there is no policy 'pya'","policy":"pya","result":"error"}`)
			calls("RL.DESCRIPTORS e 0 2 1 other x - - 1 ip 192.0.2.1 - -", `{"descriptor":["ip=192.0.2.1"],"descriptors":2,"limit":"per_ip",`+e+`,"reason":"ok","remaining":1,"result":"allowed","version":1}`)
			calls("RL.DESCRIPTORS e 2 2 1 other x - - 1 ip 192.0.2.1 - -", `{"descriptor":["ip=192.0.2.1"],"descriptors":2,"limit":"per_ip",`+e+`,"reason":"limit","remaining":0,"result":"denied","retry_after_ms":3600000,"version":1}`)
			calls("RL.DESCRIPTORS e 0 2 1 other x - - 1 try y - -", `{"descriptor":["try=y"],"descriptors":2,`+e+`,"reason":"ok","remaining":0,"result":"shadow","version":1}`)
			calls("CL.THROTTLE k 0 1 60", `{"key":"k","remaining":0,"result":"allowed"}`)
			calls("CL.THROTTLE k 0 1 60", `{"key":"k","remaining":0,"result":"denied","retry_after_ms":60000}`)
			calls("THROTTLE c 1 1 60 2", `{"key":"c","remaining":1,"result":"denied","retry_after_ms":-1}`)
			calls("GCRA g 0 1 60", `{"key":"g","remaining":0,"result":"allowed"}`)
			calls("GCRA g 0 1 60", `{"key":"g","remaining":0,"result":"denied","retry_after_ms":60000}`)
			calls("RL.LIMIT a 5 1m AND b 1 1m", `{"key":"a","remaining":0,"result":"allowed"}`)
			calls("RL.LIMIT a 5 1m AND b 1 1m", `{"key":"b","remaining":0,"result":"denied","retry_after_ms":60000}`)
			calls("RL.ACQUIRE slots 1 1m ID x", `{"key":"slots","remaining":0,"result":"allowed"}`)
			calls("RL.ACQUIRE slots 1 1m ID y", `{"key":"slots","remaining":0,"result":"denied","retry_after_ms":60000}`)
			calls("RL.LIMIT a x 1m", `{"error":"ERR value is not an integer or out of range","key":"a","result":"error"}`)
			// A command that decides nothing has no line.
			for _, line := range []string{"RL.EXPLAIN a", "GET a", "RL.POLICY LIST", "INCR n", "nosuch", "RL.CHECK"} {
				r.raw(strings.Fields(line)...)
			}
			got := r.told()
			for i := range min(len(want), len(got)) {
				assert.JSONEq(t, want[i], got[i])
			}
			require.Len(t, got, len(want))
			require.Equal(t, decisions.Stats{Written: uint64(len(want))}, r.s.DecisionLog())
		})
	}
}

// Secrets are not in the log, whatever its configuration, nor in errors.
func TestDecisionLogHasNoSecrets(t *testing.T) {
	r := newToldRig(t, "*")
	r.setPolicy("p", `{attributes: {card: {type: secret}}, limits: {card: {by: card, rate: 1/h}}}`)
	for _, line := range []string{"RL.CHECK p card x4711 user eve", "RL.CHECK p card x4711 COST x", "RL.CHECK p card x4711", "RL.RESERVE p card x4711", "RL.CHECK nosuch card x4711", "RL.DESCRIPTORS p 0 1 1 card x4711 - -", "RL.DESCRIPTORS p 0 1 2 card x4711 - -"} {
		r.raw(strings.Fields(line)...)
	}
	require.Len(t, r.told(), 7)
	require.NotContains(t, r.out.String(), "x4711")
	require.Contains(t, r.out.String(), `"card":"(redacted)"`)
}

// Without lines to write no command takes another way, and rates change while the
// server runs.
func TestDecisionLogIsOff(t *testing.T) {
	r := newToldRig(t)
	require.NotZero(t, mode(r.s.mode.Load())&modeDecisions)
	r.s.Configure(Runtime{})
	require.Zero(t, mode(r.s.mode.Load())&modeDecisions)
	r.raw("CL.THROTTLE", "k", "0", "1", "60")
	r.s.Configure(Runtime{DecisionsDenied: 9})
	r.raw("CL.THROTTLE", "k", "0", "1", "60")
	require.Len(t, r.told(), 1)
	require.Zero(t, mode(newRig(t, engine.Config{}).s.mode.Load())&modeDecisions)
}

// asker is a front's request.
type asker struct{}

func (asker) Origin() decisions.Origin {
	return decisions.Origin{Front: "redis", Request: "r-1", Trace: "t-1"}
}

// Commands of a Caller have the origin of theirs.
func TestDecisionLogTellsWhoAsks(t *testing.T) {
	r := newToldRig(t)
	for _, from := range []decisions.Asker{asker{}, nil} {
		_, err := r.s.Caller().Pipeline(context.Background(), from, nil, []byte(encode("CL.THROTTLE", "k", "9", "1", "60")))
		require.NoError(t, err)
	}
	r.log.Close()
	lines := strings.Split(r.out.String(), "\n")
	require.Contains(t, lines[0], `"request_id":"r-1","trace_id":"t-1"`)
	require.NotContains(t, lines[1], "r-1", "which the next call is not told by")
}
