package admin

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/resp"
)

// listed is a policy and its version, in a list or as the result of a change.
type listed struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

// version is a version of a policy. A policy's history leaves out Text.
type version struct {
	Name     string  `json:"name,omitempty"`
	Version  int64   `json:"version"`
	Revision int64   `json:"revision"`
	Time     string  `json:"time"`
	Author   string  `json:"author"`
	File     string  `json:"file"`
	Text     *string `json:"text,omitempty"`
	Deleted  *bool   `json:"deleted,omitempty"`
}

// readVersion reads a version in a reply of RL.POLICY.
func readVersion(r *resp.Reply) (v version) {
	text := func(name string) string { f := value(r, name); return f.Str }
	number := func(name string) int64 { f := value(r, name); return f.Int }
	return version{Version: number("version"), Revision: number("revision"), Time: text("time"), Author: text("author"), File: text("file")}
}

func (a *API) listPolicies(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	reply, err := a.ask(r, "RL.POLICY", "LIST")
	if err != nil {
		return Answer{}, err
	}
	return answer(struct {
		Policies []listed `json:"policies"`
	}{readListed(&reply)})
}

// readListed reads a list of policies' names and versions.
func readListed(r *resp.Reply) []listed {
	list := make([]listed, len(r.Elems))
	for i := range r.Elems {
		name, v := value(&r.Elems[i], "name"), value(&r.Elems[i], "version")
		list[i] = listed{name.Str, v.Int}
	}
	return list
}

// getPolicy answers with a version of a policy, as JSON or, if the client prefers that, as
// the policy's text.
func (a *API) getPolicy(r *Request) (Answer, error) {
	values, err := r.query("version")
	if err != nil {
		return Answer{}, err
	}
	args := []string{"RL.POLICY", "GET", r.name()}
	if v := values.Get("version"); v != "" {
		args = append(args, "VERSION", v)
	}
	reply, err := a.ask(r, args...)
	if err != nil {
		return Answer{}, err
	}
	if reply.Type == '_' {
		return Answer{}, noPolicy
	}
	v := readVersion(&reply)
	if same(r.Header["If-None-Match"], v.Version) {
		return Answer{Status: http.StatusNotModified, Version: v.Version}, nil
	}
	body := value(&reply, "text")
	if takesYAML(r.Header["Accept"]) {
		return Answer{Type: "application/yaml", Version: v.Version, Body: []byte(body.Str)}, nil
	}
	v.Name, v.Text = r.name(), &body.Str
	return Answer{Version: v.Version, Body: text(v)}, nil
}

var noPolicy = &Error{Status: http.StatusNotFound, Code: "NOPOLICY", Detail: "there is no such policy, or no such version of it"}

// takesYAML reports whether the client prefers a policy's text to JSON, which it says by a
// YAML type in Accept.
func takesYAML(accept []string) bool {
	for _, line := range accept {
		for kind := range strings.SplitSeq(line, ",") {
			kind, _, err := mime.ParseMediaType(kind)
			if err == nil && (kind == "application/yaml" || kind == "text/yaml") {
				return true
			}
		}
	}
	return false
}

func (a *API) policyHistory(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	reply, err := a.ask(r, "RL.POLICY", "HISTORY", r.name())
	if err != nil {
		return Answer{}, err
	}
	if len(reply.Elems) == 0 {
		return Answer{}, noPolicy
	}
	versions := make([]version, len(reply.Elems))
	for i := range reply.Elems {
		versions[i] = readVersion(&reply.Elems[i])
		gone := value(&reply.Elems[i], "deleted")
		deleted := gone.Int == 1
		versions[i].Deleted = &deleted
	}
	return answer(struct {
		Versions []version `json:"versions"`
	}{versions})
}

// policyDiff answers with the differences between the versions `from` and `to`. Without
// `to` it compares with the present version.
func (a *API) policyDiff(r *Request) (Answer, error) {
	values, err := r.query("from", "to")
	if err != nil {
		return Answer{}, err
	}
	args := []string{"RL.POLICY", "DIFF", r.name(), values.Get("from")}
	if args[3] == "" {
		return Answer{}, wrong("from is missing: the version to compare with")
	}
	if to := values.Get("to"); to != "" {
		args = append(args, to)
	}
	reply, err := a.ask(r, args...)
	if err != nil {
		return Answer{}, err
	}
	return answer(struct {
		Differences []string `json:"differences"`
	}{readLines(&reply)})
}

// readLines reads a list of texts.
func readLines(r *resp.Reply) []string {
	lines := make([]string, len(r.Elems))
	for i := range r.Elems {
		lines[i] = r.Elems[i].Str
	}
	return lines
}

// checkPolicies answers with the errors in a file of policies.
func (a *API) checkPolicies(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	reply, err := a.ask(r, "RL.POLICY", "CHECK", string(r.Body))
	if err != nil {
		return Answer{}, err
	}
	return answer(struct {
		Findings []string `json:"findings"`
	}{readLines(&reply)})
}

// same reports whether the tags of If-None-Match include the tag of a version.
func same(tags []string, version int64) bool {
	for _, line := range tags {
		for tag := range strings.SplitSeq(line, ",") {
			if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == tagOf(version) {
				return true
			}
		}
	}
	return false
}

// tagOf returns the entity tag of a version.
func tagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ETag returns the entity tag of an answer, "" if the answer has no version.
func (a *Answer) ETag() string {
	if a.Version == 0 {
		return ""
	}
	return tagOf(a.Version)
}

// changeOptions returns the options CHANGE and DRYRUN of a change, from the query.
func changeOptions(values url.Values) (args []string, dry bool, err error) {
	if dry, err = flag(values, "dry_run"); err != nil {
		return nil, false, err
	}
	if how := values.Get("change"); how != "" {
		args = append(args, "CHANGE", how)
	}
	if dry {
		args = append(args, "DRYRUN")
	}
	return args, dry, nil
}
