package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// The paths that gateways ask. The segment after such a path names the policy or the
// routes. At pathAuthz the path of the gateway's client follows.
const (
	pathAuth    = "/v1/auth"
	pathAuth403 = "/v1/auth403"
	pathAuthz   = "/v1/authz"
)

// gates answers gateways and passes other requests to next. It answers every request below
// the gateways' paths, however the path is written. A mux would redirect some of these
// requests and answer others with 404. nginx takes neither as a no.
func (a *api) gates(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate := gateOf(r.URL.Path)
		if gate == "" {
			gate = gateOf(path.Clean(r.URL.Path))
		}
		if gate == "" {
			next.ServeHTTP(w, r)
			return
		}
		a.forward(w, r, gate)
	})
}

// gateOf returns the gateways' path that a path equals or is below; "" if there is none.
func gateOf(path string) string {
	for _, gate := range [...]string{pathAuth, pathAuth403, pathAuthz} {
		if below(path, gate) {
			return gate
		}
	}
	return ""
}

// below reports whether a path equals top or is below it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '/')
}

var errGate = &problem{status: http.StatusNotFound, detail: "the policy must be one segment of the path: write : for a / in its name"}

// policyOf returns the name of the policy, or of the routes, below a gateways' path. The
// name is one segment, in which `:` stands for `/`. Only at pathAuthz may more follow;
// policyOf returns the rest unchanged in below.
func policyOf(u *url.URL, gate string) (name, below string, ok bool) {
	segment, ok := strings.CutPrefix(u.EscapedPath(), gate+"/")
	segment, below, more := strings.Cut(segment, "/")
	if !ok || more && gate != pathAuthz {
		return "", "", false
	}
	segment, err := url.PathUnescape(segment)
	return strings.ReplaceAll(segment, ":", "/"), below, err == nil && segment != ""
}
