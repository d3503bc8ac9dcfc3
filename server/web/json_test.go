package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/verdict"
)

// FuzzRequest checks that a text that is read is JSON, and means what encoding/json reads. Any
// other text is an error. Reading takes time in proportion to the length.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"policy":"p","attributes":{"user":"a\u00e9\ud83d\ude00\n","n":12,"b":true,"x":null},"cost":5,"id":"i","peek":false,"sync":true,"fail":"open","respond":"status","ttl":"1s"}`,
		` { "policy" : "\/" } `, `{"policy":"\ud800"}`, `{"cost":-0}`, `{"cost":01}`, `{"cost":1e3}`, "{\"policy\":\"\x01\"}", `{"policy":"a" "cost":1}`, `{"policy":"p",}`, `[]`, ``, `{"attributes":{"a":"1","a":"2"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		began := time.Now()
		var c checkRequest
		var r jsonReader
		r.begin(body)
		err := c.read(&r, reserveFields)
		if err == nil {
			err = r.end()
		}
		require.Less(t, time.Since(began), time.Second+time.Duration(len(body))*time.Microsecond)
		if err != nil {
			require.Less(t, len(err.Error()), 1024)
			return
		}
		var want struct {
			Policy, ID, TTL, Fail, Respond string
			Attributes                     map[string]any
			Cost                           int64
			Peek                           bool
			Sync                           *bool
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		d.UseNumber()
		require.NoError(t, d.Decode(&want))
		require.Equal(t, want.Policy, c.Policy)
		require.Equal(t, want.ID, c.ID)
		require.Equal(t, want.TTL, c.TTL)
		require.Equal(t, want.Fail, c.Fail)
		require.Equal(t, want.Cost, c.Cost)
		require.Equal(t, want.Peek, c.Peek)
		require.Equal(t, want.Respond == "status", c.respond)
		last := map[string]string{}
		for _, a := range c.Attributes {
			last[a.Name] = a.Value
		}
		for name, value := range want.Attributes {
			switch v := value.(type) {
			case string:
				require.Equal(t, v, last[name])
			case json.Number:
				require.Equal(t, v.String(), last[name])
			case bool:
				require.Equal(t, map[bool]string{true: "true", false: "false"}[v], last[name])
			}
		}
	})
}

// FuzzText: what is written as a text is read as that by encoding/json.
func FuzzText(f *testing.F) {
	f.Add("a\"\\\x00\x1f\u2028é\xff\xed\xa0\x80😀")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		require.NoError(t, json.Unmarshal(appendText(nil, s), &back))
		require.Equal(t, string([]rune(s)), back)
		require.Equal(t, appendText(nil, s), appendText(nil, []byte(s)))
		var r jsonReader
		r.begin(appendText(nil, s))
		again, err := r.text()
		require.NoError(t, err)
		require.Equal(t, back, again)
	})
}

// The JSON is what encoding/json writes for the same values.
func TestVerdictAsJSON(t *testing.T) {
	v := verdict.Verdict{
		Decision: verdict.Decision{Limit: -1, Remaining: 1 << 62, RetryAfter: -1}, Name: []byte(`n"`), Reason: []byte("limit"), Hold: []byte("p;\x00\xff"),
		Version: 7, Applied: 2, Soft: [][]byte{[]byte("s"), []byte("t")}, Degraded: true, HasOver: true, Over: 3,
		Limits: []verdict.Limit{{Name: []byte("a"), Mode: []byte("enforce"), Status: 429, Cost: 5, Window: 1 << 62}, {Decision: verdict.Decision{Allowed: true}}},
	}
	type decision struct {
		Allowed bool  `json:"allowed"`
		Limit   int64 `json:"limit"`
		Left    int64 `json:"remaining"`
		Retry   int64 `json:"retry_after_ms"`
		Reset   int64 `json:"reset_after_ms"`
		Delay   int64 `json:"delay_ms"`
	}
	type limit struct {
		Name string `json:"name"`
		decision
		Cost   int64  `json:"cost"`
		Mode   string `json:"mode"`
		Status int64  `json:"status"`
		Window int64  `json:"window_ms"`
	}
	want, err := json.Marshal(struct {
		decision
		Name    string   `json:"name"`
		Reason  string   `json:"reason"`
		Hold    string   `json:"hold"`
		Version int64    `json:"version"`
		Applied int64    `json:"applied"`
		Limits  []limit  `json:"limits"`
		Soft    []string `json:"soft"`
		Over    int64    `json:"over"`
		Down    bool     `json:"degraded"`
	}{decision{false, -1, 1 << 62, -1, 0, 0}, `n"`, "limit", "p;\x00\xff", 7, 2, []limit{{"a", decision{}, 5, "enforce", 429, 1 << 62}, {decision: decision{Allowed: true}}}, []string{"s", "t"}, 3, true})
	require.NoError(t, err)
	got := appendVerdict(nil, &v)
	require.Equal(t, string(want), strings.ReplaceAll(string(got), "\ufffd", `\ufffd`))
}

// FuzzVerdict: what is no reply of a check is an error, and nothing else.
func FuzzVerdict(f *testing.F) {
	f.Add([]byte("-NOPOLICY there is none\r\n+OK\r\n"))
	f.Add([]byte("%2\r\n$7\r\nallowed\r\n:1\r\n$6\r\nlimits\r\n*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n"))
	f.Add([]byte("%1\r\n$4\r\nsoft\r\n*2\r\n$1\r\na\r\n_\r\n"))
	f.Fuzz(func(t *testing.T, reply []byte) {
		var v verdict.Verdict
		rest, err := v.Read(reply)
		if err == nil {
			_, err := resp.ReplyLen(reply, len(reply))
			require.NoError(t, err)
			require.LessOrEqual(t, len(rest), len(reply))
			require.NotZero(t, v.Status())
		}
	})
}

func TestParseKey(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		id, ok := parseKey(s)
		require.Equal(t, want != "", ok, s)
		if ok {
			require.Equal(t, want, id)
		}
	}
	f(`"a b"`, "a b")
	f(`"a\"\\"`, `a"\`)
	f(`a-b_c:1/2=`, "a-b_c:1/2=")
	for _, s := range []string{``, `"`, `""`, `"a`, `a"`, `a b`, `"a" b`, `"a\b"`, `"a\`, `a,b`, "a\x7f", "\"\xc3\xa9\"", `"a";p=1`} {
		f(s, "")
	}
}
