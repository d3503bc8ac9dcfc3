package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// putPolicy sets the policy in the path to the text in the body.
func (a *API) putPolicy(r *Request) (Answer, error) {
	values, err := r.query("change", "dry_run")
	if err != nil {
		return Answer{}, err
	}
	if name := r.name(); name == "." || name == ".." { // many clients clean such a path
		return Answer{}, wrong("a policy named . or .. cannot be made over HTTP")
	}
	args, err := a.condition(r)
	if err != nil {
		return Answer{}, err
	}
	options, dry, err := changeOptions(values)
	if err != nil {
		return Answer{}, err
	}
	args = append(append([]string{"RL.POLICY", "SET", r.name()}, args...), options...)
	reply, err := a.ask(r, append(args, string(r.Body))...)
	return changed(r.name(), &reply, dry, err)
}

// changed answers a request that changes one policy.
func changed(name string, reply *resp.Reply, dry bool, err error) (Answer, error) {
	switch {
	case err != nil:
		return Answer{}, err
	case dry:
		return rehearsed(reply)
	}
	return Answer{Version: reply.Int, Body: text(listed{name, reply.Int})}, nil
}

// rehearsed answers a dry run: what the change would do.
func rehearsed(reply *resp.Reply) (Answer, error) {
	return answer(struct {
		Changes []string `json:"changes"`
	}{readLines(reply)})
}

// condition returns the option IF of a change, from the request's If-Match and
// If-None-Match.
func (a *API) condition(r *Request) ([]string, error) {
	match, none := r.Header["If-Match"], r.Header["If-None-Match"]
	switch {
	case len(match) == 0 && len(none) == 0:
		return nil, nil
	case len(match) > 0 && len(none) > 0, len(match) > 1, len(none) > 1:
		return nil, wrong("send one of If-Match and If-None-Match, with one value")
	case len(none) == 1 && none[0] == "*":
		return []string{"IF", "0"}, nil
	case len(none) == 1:
		return nil, wrong("If-None-Match must be *, which means: only if the policy does not exist")
	case match[0] == "*":
		return a.present(r)
	}
	tag := match[0]
	digits := strings.TrimSuffix(strings.TrimPrefix(tag, `"`), `"`)
	if v, err := strconv.ParseInt(digits, 10, 64); err == nil && v > 0 && tag == tagOf(v) {
		return []string{"IF", digits}, nil
	}
	return nil, wrong(`If-Match is * or the ETag of a version, such as "3"`)
}

// present returns the option IF with the policy's present version.
func (a *API) present(r *Request) ([]string, error) {
	reply, err := a.ask(r, "RL.POLICY", "GET", r.name())
	if err != nil {
		return nil, err
	}
	if reply.Type == '_' {
		return nil, &Error{Status: http.StatusPreconditionFailed, Code: "VERSION", Detail: "there is no such policy"}
	}
	v := value(&reply, "version")
	return []string{"IF", strconv.FormatInt(v.Int, 10)}, nil
}

func (a *API) deletePolicy(r *Request) (Answer, error) {
	values, err := r.query("reset")
	if err != nil {
		return Answer{}, err
	}
	condition, err := a.condition(r)
	if err != nil {
		return Answer{}, err
	}
	args := append([]string{"RL.POLICY", "DEL", r.name()}, condition...)
	reset, err := flag(values, "reset")
	if err != nil {
		return Answer{}, err
	}
	if reset {
		args = append(args, "RESET")
	}
	reply, err := a.ask(r, args...)
	if err != nil {
		return Answer{}, err
	}
	return answer(listed{r.name(), reply.Int})
}

// loadPolicies applies a whole file of policies as one change.
func (a *API) loadPolicies(r *Request) (Answer, error) {
	values, err := r.query("change", "dry_run")
	if err != nil {
		return Answer{}, err
	}
	options, dry, err := changeOptions(values)
	if err != nil {
		return Answer{}, err
	}
	args := append([]string{"RL.POLICY", "LOAD"}, options...)
	reply, err := a.ask(r, append(args, string(r.Body))...)
	switch {
	case err != nil:
		return Answer{}, err
	case dry:
		return rehearsed(&reply)
	}
	return answer(struct {
		Policies []listed `json:"policies"`
	}{readListed(&reply)})
}

// rollbackPolicy makes a new version with the text of an earlier one.
func (a *API) rollbackPolicy(r *Request) (Answer, error) {
	values, err := r.query("change", "dry_run")
	if err != nil {
		return Answer{}, err
	}
	var body struct {
		Version json.Number `json:"version"`
	}
	if err := decode(r.Body, &body); err != nil {
		return Answer{}, err
	}
	if body.Version == "" {
		return Answer{}, wrong("version is missing")
	}
	condition, err := a.condition(r)
	if err != nil {
		return Answer{}, err
	}
	options, dry, err := changeOptions(values)
	if err != nil {
		return Answer{}, err
	}
	args := append([]string{"RL.POLICY", "ROLLBACK", r.name(), body.Version.String()}, condition...)
	reply, err := a.ask(r, append(args, options...)...)
	return changed(r.name(), &reply, dry, err)
}

// resetPolicy resets the counters of the caller with the attributes in the body. Without
// attributes it resets the counters of all callers.
func (a *API) resetPolicy(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	var body struct {
		Attributes attributes `json:"attributes"`
		All        bool       `json:"all"`
	}
	if err := decode(r.Body, &body); err != nil {
		return Answer{}, err
	}
	pairs, err := body.Attributes.pairs()
	if err != nil {
		return Answer{}, err
	}
	if body.All != (len(pairs) == 0) {
		return Answer{}, wrong("attributes of a caller, or all: true, is required")
	}
	reply, err := a.ask(r, append([]string{"RL.POLICY", "RESET", r.name()}, pairs...)...)
	if err != nil {
		return Answer{}, err
	}
	if body.All {
		return changed(r.name(), &reply, false, nil)
	}
	return answer(struct {
		Limits int64 `json:"limits"`
	}{reply.Int})
}
