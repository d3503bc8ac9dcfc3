package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// jsonFront asks a server one call at a time.
type jsonFront struct {
	*rig
	asked int
}

func (f *jsonFront) ask(w *wanted) {
	c := w.call
	if c.verb == "DESCRIPTORS" {
		f.run(c.args()...)
		return
	}
	f.asked++
	var header []string
	named := f.asked%2 == 0
	if c.id != "" && !named {
		header = []string{"Idempotency-Key", `"` + c.id + `"`}
	}
	body := c.json(w.t, named)
	if c.status && c.hold == "" {
		body = strings.TrimSuffix(body, "}") + `,"respond":"status"}`
	}
	before := time.Now()
	a := f.post("/v1/"+strings.ToLower(c.verb), body, header...)
	if w.json == nil {
		p := decodeJSON(w.t, []byte(a.body))
		w.sameProblem(p)
		require.Equal(w.t, fmt.Sprint(p["status"]), strconv.Itoa(a.status))
		return
	}
	w.sameFields(a.header, before)
	if want := w.status(); c.status && c.hold == "" && want != 200 {
		require.Equal(w.t, want, a.status)
		w.sameDenial(a.body)
		return
	}
	require.Equal(w.t, 200, a.status, a.body)
	w.sameVerdict([]byte(a.body))
}

// batchFront asks a server many calls at a time. Those before one that a batch cannot
// have are asked before it.
type batchFront struct {
	*rig
	asked   int
	waiting []*wanted
}

func (f *batchFront) add(w *wanted) {
	if w.call.verb != "CHECK" {
		f.flush()
		f.run(w.call.args()...)
		return
	}
	f.waiting = append(f.waiting, w)
}

func (f *batchFront) flush() {
	if len(f.waiting) == 0 {
		return
	}
	t := f.waiting[0].t
	var bodies []string
	for _, w := range f.waiting {
		bodies = append(bodies, w.call.json(t, true))
	}
	a := f.post("/v1/check:batch", `{"checks":[`+strings.Join(bodies, ",")+`]}`)
	require.Equal(t, 200, a.status, a.body)
	var results struct {
		Results []struct {
			Status  int
			Verdict json.RawMessage
			Problem json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &results))
	require.Len(t, results.Results, len(f.waiting))
	for i, w := range f.waiting {
		got := &results.Results[i]
		if w.json == nil {
			p := decodeJSON(t, got.Problem)
			w.sameProblem(p)
			require.Equal(t, fmt.Sprint(p["status"]), strconv.Itoa(got.Status))
			continue
		}
		require.Equal(t, w.status(), got.Status)
		w.sameVerdict(got.Verdict)
	}
	f.asked += len(f.waiting)
	f.waiting = f.waiting[:0]
}

// gateFront asks a server as gateways do, by routes, or by the policy whose attributes
// are those of every request.
type gateFront struct {
	*rig
	r     *randomCalls
	asked int
}

// question returns the path of a call below a gate, and the header fields of the gateway. ok is
// false for a call that gateways cannot make.
func (f *gateFront) question(c *equalCall) (path string, header []string, ok bool) {
	if c.verb != "CHECK" || c.id != "" || c.option != "" || c.cost == 0 || c.cost >= equalCosts {
		return "", nil, false
	}
	attribute := func(name string) string {
		if v, ok := c.attributes[name]; ok {
			return fmt.Sprint(v)
		}
		return ""
	}
	for _, wrong := range []string{"nowhere", "203.0.113.256"} { // which a gateway's client has no address by
		if attribute("ip") == wrong {
			return "", nil, false
		}
	}
	if ip := attribute("ip"); ip != "" {
		header = append(header, "X-Forwarded-For", "9.9.9.9, "+ip)
	}
	if c.policy == "team/edge" {
		return "team:edge", append(header, "X-Forwarded-Method", attribute("method"), "X-Forwarded-Host", attribute("host"), "X-Forwarded-Uri", attribute("path")+"?q=/"), true
	}
	if user := attribute("user"); user != "" {
		header = append(header, "X-User", user)
	}
	if tier := attribute("tier"); tier != "" {
		header = append(header, "X-Tier", tier)
	}
	if kind := attribute("kind"); kind != "" {
		header = append(header, "Cookie", "other=1; kind="+kind)
	}
	query := ""
	if _, ok := c.attributes["n"]; ok {
		query = "?n=" + url.QueryEscape(attribute("n"))
	}
	if c.policy == "none" {
		return "none", header, true
	}
	return "routes:all", append(header, "X-Forwarded-Uri", "/"+c.policy+"/"+strconv.Itoa(max(0, c.cost))+query), true
}

// ask reports whether it could.
func (f *gateFront) ask(w *wanted) bool {
	path, header, ok := f.question(w.call)
	if !ok {
		f.run(w.call.args()...)
		return false
	}
	f.asked++
	gate := f.r.of("auth", "auth403", "authz")
	if gate == "authz" { // which asks with the path of its client
		if path != "routes:all" {
			gate = "auth"
		} else {
			path += header[len(header)-1]
			header = header[:len(header)-2]
		}
	}
	before := time.Now()
	a := f.request("GET", "/v1/"+gate+"/"+path, "", header...)
	want := w.status()
	if gate == "auth403" {
		require.Empty(w.t, a.body)
		if want != 200 {
			want = 403
		}
	}
	require.Equal(w.t, want, a.status, "%v: %s", w.call.args(), a.body)
	switch {
	case w.json != nil:
		w.sameFields(a.header, before)
		if gate != "auth403" && want != 200 {
			w.sameDenial(a.body)
		}
	case gate != "auth403":
		w.sameProblem(decodeJSON(w.t, []byte(a.body)))
	}
	return true
}

// errorStatus is the HTTP status of an error reply, by its code.
var errorStatus = map[string]int{"ERR": 400, "WRONGTYPE": 400, "NOPOLICY": 404, "NOHOLD": 404, "IDCONFLICT": 422}

// status is the HTTP status that the reply stands for.
func (w *wanted) status() int {
	if w.json == nil {
		return errorStatus[w.code]
	}
	if w.reply.Field("allowed").Int == 1 {
		return 200
	}
	if b := w.binding(); b != nil {
		if status := b.Field("status"); status != nil && status.Int != 200 {
			return int(status.Int)
		}
	}
	return 403
}

// binding is what is said of the limit that stands for the call, nil for none.
func (w *wanted) binding() *resp.Reply {
	limits := w.reply.Field("limits").Elems
	for i := range limits {
		if limits[i].Field("name").Str == w.reply.Field("name").Str {
			return &limits[i]
		}
	}
	return nil
}

// sameDenial demands that a problem has the verdict, and the limits that deny.
func (w *wanted) sameDenial(body string) {
	p := decodeJSON(w.t, []byte(body))
	require.Equal(w.t, w.json, p["verdict"], "%v", w.call.args())
	require.Equal(w.t, fmt.Sprint(w.status()), fmt.Sprint(p["status"]))
	violated := []any{}
	limits := w.reply.Field("limits").Elems
	for i := range limits {
		if l := &limits[i]; l.Field("allowed").Int == 0 && l.Field("mode").Str == "enforce" {
			violated = append(violated, l.Field("name").Str)
		}
	}
	require.Equal(w.t, violated, p["violated-policies"])
}

// sameFields demands header fields that agree with the reply.
func (w *wanted) sameFields(h http.Header, before time.Time) {
	number := func(r *resp.Reply, name string) int64 { return r.Field(name).Int }
	binding := w.binding()
	if binding == nil && w.reply.Field("name").Type != '_' { // of a call that is made again
		binding = &w.reply
	}
	if binding == nil {
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			require.Empty(w.t, h.Get(name), name)
		}
	} else {
		var left, quotas []string
		add := func(l *resp.Reply) {
			name := strconv.Quote(l.Field("name").Str)
			quota := name + ";q=" + strconv.FormatInt(max(0, number(l, "limit")), 10)
			if window := l.Field("window_ms"); window != nil && window.Int > 0 && window.Int%1000 == 0 {
				quota += ";w=" + strconv.FormatInt(window.Int/1000, 10)
			}
			wait := number(l, "reset_after_ms")
			if number(l, "allowed") == 0 {
				wait = number(l, "retry_after_ms")
			}
			rest := name + ";r=" + strconv.FormatInt(max(0, number(l, "remaining")), 10)
			if wait >= 0 {
				rest += ";t=" + strconv.FormatInt((wait+999)/1000, 10)
			}
			left, quotas = append(left, rest), append(quotas, quota)
		}
		add(binding)
		limits := w.reply.Field("limits").Elems
		for i := range limits {
			if l := &limits[i]; l != binding && l.Field("mode").Str == "enforce" {
				add(l)
			}
		}
		require.Equal(w.t, strings.Join(quotas, ", "), h.Get("RateLimit-Policy"), "%v", w.call.args())
		require.Equal(w.t, strings.Join(left, ", "), h.Get("RateLimit"), "%v", w.call.args())
		require.Equal(w.t, strconv.FormatInt(number(binding, "limit"), 10), h.Get("X-RateLimit-Limit"))
		require.Equal(w.t, strconv.FormatInt(max(0, number(binding, "remaining")), 10), h.Get("X-RateLimit-Remaining"))
		reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
		require.NoError(w.t, err)
		full := max(0, number(binding, "reset_after_ms"))
		require.GreaterOrEqual(w.t, 1000*reset, before.UnixMilli()+full)
		require.Less(w.t, 1000*reset, time.Now().UnixMilli()+full+1000)
	}
	w.sameWait(w.reply.Field("allowed").Int == 0, w.reply.Field("retry_after_ms").Int, h.Get("Retry-After"))
}

// sameWait demands that Retry-After is in whole seconds, never before the end of the wait,
// which is in ms, and not much later. If no wait helps, there must be none.
func (w *wanted) sameWait(denied bool, wait int64, text string) {
	if !denied || wait < 0 {
		require.Empty(w.t, text)
		return
	}
	after, err := strconv.ParseInt(text, 10, 64)
	require.NoError(w.t, err)
	require.Positive(w.t, after)
	require.GreaterOrEqual(w.t, 1000*after, wait)
	require.LessOrEqual(w.t, 1000*after, wait+max(2000, wait/10)+1000)
}
