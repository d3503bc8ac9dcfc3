package web

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// admits reports whether a request may ask for verdicts: what a client of the Redis
// protocol may who has sent AUTH with the same user and password. A bearer token is
// the password of any user. Where there is no password nothing is looked at: behind
// a gateway Authorization is that of the gateway's own client.
func (a *api) admits(r *http.Request) bool {
	if a.decider.Open() {
		return true
	}
	user, password, ok := credentials(r.Header.Get("Authorization"))
	if !ok {
		return false
	}
	ok, err := a.decider.Login(r.Context(), r.RemoteAddr, user, password)
	if err != nil {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	return ok
}

// credentials reads Authorization. A bearer token has the user "".
func credentials(header string) (user, password string, ok bool) {
	scheme, token, _ := strings.Cut(header, " ")
	switch token = strings.TrimSpace(token); {
	case strings.EqualFold(scheme, "Bearer"):
		return "", token, true
	case strings.EqualFold(scheme, "Basic"):
		pair, err := base64.StdEncoding.DecodeString(token)
		if err != nil {
			return "", "", false
		}
		user, password, ok = strings.Cut(string(pair), ":")
		return user, password, ok
	}
	return "", "", false
}

var errUnauthorized = &problem{status: http.StatusUnauthorized, code: "NOAUTH", detail: "send the password: Authorization: Bearer <requirepass>"}
