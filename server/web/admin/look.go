package admin

import (
	"net/http"
	"slices"
	"strings"
)

// rankings are the rankings of RL.TOP.
var rankings = []string{"denied", "allowed", "hot"}

// top answers with the busiest keys.
func (a *API) top(r *Request) (Answer, error) {
	values, err := r.query("by", "policy", "count")
	if err != nil {
		return Answer{}, err
	}
	args := []string{"RL.TOP"}
	if p := values.Get("policy"); p != "" {
		args = append(args, "POLICY", p)
	}
	if by := values.Get("by"); by != "" {
		if !slices.Contains(rankings, by) {
			return Answer{}, wrong("by must be one of %s", strings.Join(rankings, ", "))
		}
		args = append(args, by)
	}
	if count := values.Get("count"); count != "" {
		args = append(args, "COUNT", count)
	}
	reply, err := a.ask(r, args...)
	if err != nil {
		return Answer{}, err
	}
	type ranked struct {
		Key     string `json:"key"`
		Count   int64  `json:"count"`
		Error   int64  `json:"error"`
		Blocked *int64 `json:"blocked_ms,omitempty"`
	}
	list := make([]ranked, 0, len(reply.Elems))
	for i := range reply.Elems {
		e := reply.Elems[i].Elems
		if len(e) < 3 {
			continue
		}
		one := ranked{Key: e[0].Str, Count: e[1].Int, Error: e[2].Int}
		if len(e) > 3 {
			one.Blocked = &e[3].Int
		}
		list = append(list, one)
	}
	return answer(struct {
		Top []ranked `json:"top"`
	}{list})
}

// explained is the body of a request to explain: a key, a hold or a policy, and for a
// policy the caller's attributes.
type explained struct {
	Key        *string    `json:"key"`
	Hold       *string    `json:"hold"`
	Policy     *string    `json:"policy"`
	Attributes attributes `json:"attributes"`
}

// explain answers with one of these: the state of a key, the limits that apply to a caller
// of a policy, or the charges of a hold.
func (a *API) explain(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	var body explained
	if err := decode(r.Body, &body); err != nil {
		return Answer{}, err
	}
	return a.explainThat(r, &body)
}

// explainQuery does the same as explain, for a request with parameters in the query instead
// of a body.
func (a *API) explainQuery(r *Request) (Answer, error) {
	values, err := r.query("key", "hold", "policy", "attributes.")
	if err != nil {
		return Answer{}, err
	}
	x := explained{Attributes: attributes{}}
	for name, to := range map[string]**string{"key": &x.Key, "hold": &x.Hold, "policy": &x.Policy} {
		if value, given := values[name]; given {
			*to = &value[0]
		}
	}
	for name, value := range values {
		if name, ok := strings.CutPrefix(name, "attributes."); ok {
			x.Attributes[name] = value[0]
		}
	}
	return a.explainThat(r, &x)
}

func (a *API) explainThat(r *Request, x *explained) (Answer, error) {
	pairs, err := x.Attributes.pairs()
	if err != nil {
		return Answer{}, err
	}
	var args []string
	given := 0
	if x.Key != nil {
		args = []string{"RL.EXPLAIN", *x.Key}
		given++
	}
	if x.Hold != nil {
		args = []string{"RL.EXPLAIN", "HOLD", *x.Hold}
		given++
	}
	if x.Policy != nil {
		args = append([]string{"RL.EXPLAIN", "POLICY", *x.Policy}, pairs...)
		given++
	}
	if given != 1 || len(pairs) > 0 && x.Policy == nil {
		return Answer{}, wrong("key, hold, or policy with attributes is required")
	}
	reply, err := a.ask(r, args...)
	if err != nil {
		return Answer{}, err
	}
	if reply.Field("applies") == nil { // otherwise they are entries of a descriptor, with any names
		if err := checkNamesOf(pairs); err != nil {
			return Answer{}, err
		}
	}
	if reply.Type == '_' {
		return Answer{}, &Error{Status: http.StatusNotFound, Code: "NOKEY", Detail: "there is no such key"}
	}
	return Answer{Body: appendReply(nil, &reply)}, nil
}
