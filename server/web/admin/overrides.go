package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/verdict"
)

const (
	// maxOverrides bounds the overrides of one import.
	maxOverrides = 1000
	maxImport    = 1 << 20
	// defaultList and maxList are how many overrides a list has by default and at most.
	defaultList = 1000
	maxList     = 100_000
)

// override is an override of one caller or, if it scales, of all callers. Its fields are
// those of RL.OVERRIDE. ID, Over and Sleeps occur only in replies.
type override struct {
	ID         string     `json:"id,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Limit      string     `json:"limit,omitempty"`
	Rate       string     `json:"rate,omitempty"`
	Tier       string     `json:"tier,omitempty"`
	Percent    *int64     `json:"percent,omitempty"`
	Until      *string    `json:"until"`
	Attributes attributes `json:"attributes"`
	Over       bool       `json:"over"`
	Sleeps     bool       `json:"sleeps"`
}

// set returns the arguments of RL.OVERRIDE SET.
func (o *override) set(policy string) ([]string, error) {
	args := []string{"RL.OVERRIDE", "SET", policy}
	given := 0
	if o.Limit != "" {
		args = append(args, "LIMIT", o.Limit, "RATE", o.Rate)
		given++
	}
	if o.Tier != "" {
		args = append(args, "TIER", o.Tier)
		given++
	}
	if o.Percent != nil {
		args = append(args, "SCALE", strconv.FormatInt(*o.Percent, 10)+"%")
		given++
	}
	if given != 1 || (o.Limit == "") != (o.Rate == "") {
		return nil, wrong("an override needs limit and rate, or tier, or percent")
	}
	pairs, err := o.Attributes.pairs()
	if err == nil {
		err = checkNamesOf(pairs)
	}
	switch {
	case err != nil:
		return nil, err
	case o.Until != nil && *o.Until != "":
		args = append(args, "UNTIL", *o.Until)
	case len(pairs) > 0 && pairs[0] == "until": // RL.OVERRIDE would read it as its option
		return nil, wrong("an override by an attribute with the name until also needs the field until")
	}
	return append(args, pairs...), nil
}

// readOverride reads an override in a reply of RL.OVERRIDE.
func readOverride(r *resp.Reply) (o override) {
	text := func(name string) string { f := value(r, name); return f.Str }
	is := func(name string) bool { f := value(r, name); return f.Int == 1 }
	o = override{ID: text("id"), Kind: text("kind"), Limit: text("limit"), Rate: text("rate"), Tier: text("tier"), Over: is("over"), Sleeps: is("sleeps"), Attributes: attributes{}}
	if percent := r.Field("percent"); percent != nil {
		o.Percent = &percent.Int
	}
	if until := text("until"); until != "" {
		o.Until = &until
	}
	list := value(r, "attributes")
	for i := 0; i+1 < len(list.Elems); i += 2 {
		o.Attributes[list.Elems[i].Str] = list.Elems[i+1].Str
	}
	return o
}

// selectors are the query parameters that select an override.
var selectors = []string{"limit", "tier", "scale", "attributes."}

// selected returns the arguments of RL.OVERRIDE for the override that a query selects:
// LIMIT limit, TIER or SCALE, and attributes. It returns nil if the query selects none.
func selected(values url.Values) ([]string, error) {
	var args, pairs []string
	for name, list := range values {
		if name, ok := strings.CutPrefix(name, "attributes."); ok {
			pairs = append(pairs, name, list[0])
		}
	}
	if err := checkNamesOf(pairs); err != nil {
		return nil, err
	}
	tier, err := flag(values, "tier")
	if err != nil {
		return nil, err
	}
	scale, err := flag(values, "scale")
	if err != nil {
		return nil, err
	}
	given := 0
	if limit := values.Get("limit"); limit != "" {
		args = []string{"LIMIT", limit}
		given++
	}
	if tier {
		args = []string{"TIER"}
		given++
	}
	if scale {
		args = []string{"SCALE"}
		given++
	}
	if given > 1 || given == 0 && len(pairs) > 0 {
		return nil, wrong("name the override by limit, tier=true or scale=true, and by attributes.<name>")
	}
	return append(args, pairs...), nil
}

// getOverrides answers with one override, or with a list of them.
func (a *API) getOverrides(r *Request) (Answer, error) {
	values, err := r.query(append([]string{"after", "count"}, selectors...)...)
	if err != nil {
		return Answer{}, err
	}
	which, err := selected(values)
	if err != nil {
		return Answer{}, err
	}
	if which != nil {
		reply, err := a.ask(r, append([]string{"RL.OVERRIDE", "GET", r.name()}, which...)...)
		switch {
		case err != nil:
			return Answer{}, err
		case reply.Type == '_':
			return Answer{}, noOverride
		}
		return answer(readOverride(&reply))
	}
	count := int64(defaultList)
	if c := values.Get("count"); c != "" {
		if count, err = strconv.ParseInt(c, 10, 64); err != nil || count < 1 || count > maxList {
			return Answer{}, wrong("count must be 1 to %d", maxList)
		}
	}
	reply, err := a.ask(r, "RL.OVERRIDE", "LIST", r.name(), "AFTER", values.Get("after"), "COUNT", strconv.FormatInt(count, 10))
	if err != nil {
		return Answer{}, err
	}
	list := make([]override, len(reply.Elems))
	for i := range reply.Elems {
		list[i] = readOverride(&reply.Elems[i])
	}
	return answer(overrides{list})
}

// overrides is a list of overrides in a body.
type overrides struct {
	Overrides []override `json:"overrides"`
}

var noOverride = &Error{Status: http.StatusNotFound, Code: "NOOVERRIDE", Detail: "there is no such override"}

// putOverride sets the override in the body.
func (a *API) putOverride(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	var o override
	if err := decode(r.Body, &o); err != nil {
		return Answer{}, err
	}
	args, err := o.set(r.name())
	if err != nil {
		return Answer{}, err
	}
	if _, err := a.ask(r, args...); err != nil {
		return Answer{}, err
	}
	return answer(imported{Set: 1, Errors: []importError{}})
}

// deleteOverride deletes the override that the query names.
func (a *API) deleteOverride(r *Request) (Answer, error) {
	values, err := r.query(selectors...)
	if err != nil {
		return Answer{}, err
	}
	which, err := selected(values)
	if err != nil {
		return Answer{}, err
	}
	if which == nil {
		return Answer{}, wrong("limit, tier=true or scale=true is required")
	}
	reply, err := a.ask(r, append([]string{"RL.OVERRIDE", "DEL", r.name()}, which...)...)
	switch {
	case err != nil:
		return Answer{}, err
	case reply.Int == 0:
		return Answer{}, noOverride
	}
	return answer(struct {
		Deleted int64 `json:"deleted"`
	}{reply.Int})
}

// imported is the result of an import.
type imported struct {
	Set    int           `json:"set"`
	Errors []importError `json:"errors"`
}

// importError says why one override was not set. Index is the override's place in the body,
// from 0.
type importError struct {
	Index  int    `json:"index"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// importOverrides sets many overrides, one after the other. The status is 200 if all were
// set.
func (a *API) importOverrides(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	var body overrides
	if err := decode(r.Body, &body); err != nil {
		return Answer{}, err
	}
	if len(body.Overrides) > maxOverrides {
		return Answer{}, wrong("at most %d overrides at a time", maxOverrides)
	}
	// Check all before the first is set.
	var commands []byte
	for i := range body.Overrides {
		args, err := body.Overrides[i].set(r.name())
		if err != nil {
			return Answer{}, wrong("override %d: %v", i+1, err)
		}
		commands = resp.AppendCommand(commands, args)
	}
	done := imported{Errors: []importError{}}
	if len(commands) > 0 {
		out, err := a.asker.PipelineAs(r.Context(), r.Who, nil, commands)
		if err != nil {
			return Answer{}, err
		}
		for i := range body.Overrides {
			n, err := resp.ReplyLen(out, len(out))
			if err != nil {
				return Answer{}, err
			}
			reply, err := resp.DecodeReply(out[:n])
			if err != nil {
				return Answer{}, err
			}
			out = out[n:]
			if failed := new(verdict.Error); errors.As(verdict.ErrorOf(&reply), &failed) {
				done.Errors = append(done.Errors, importError{i, failed.Code, failed.Text})
			} else {
				done.Set++
			}
		}
	}
	answer := Answer{Body: text(done)}
	if len(done.Errors) > 0 {
		answer.Status = http.StatusUnprocessableEntity
	}
	return answer, nil
}
