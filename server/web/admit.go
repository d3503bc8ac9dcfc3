package web

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate-io/headgate/server"
)

// open reports whether a right needs nothing to be shown.
func (a *api) open(right server.Right) bool {
	return a.decider.Open(server.PortHTTP, right, a.local)
}

// admits returns why a request may not ask for verdicts, or nil.
func (a *api) admits(r *http.Request) *problem {
	if a.open(server.RightRead) {
		return nil
	}
	_, p := a.admit(r, server.RightRead)
	return p
}

// admitsGateway is admits for a gateway, which may take a late answer for a yes.
func (a *api) admitsGateway(r *http.Request) *problem {
	if a.open(server.RightRead) {
		return nil
	}
	_, err := a.decider.AdmitAtOnce(server.PortHTTP, a.shown(r), server.RightRead)
	return refusal(err)
}

// admit returns who sends a request that needs a right, or why it may not be sent.
func (a *api) admit(r *http.Request, right server.Right) (server.Client, *problem) {
	who, err := a.decider.Admit(r.Context(), server.PortHTTP, a.shown(r), right)
	if errors.Is(err, server.ErrGuesses) || r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	if err == nil && right == server.RightWrite && a.open(right) {
		return who, foreign(r)
	}
	return who, refusal(err)
}

// shown is what a request shows of who sends it.
func (a *api) shown(r *http.Request) *server.Shown {
	shown := &server.Shown{Address: r.RemoteAddr, Local: a.local, Certificates: server.CertificateNames(r.TLS)}
	shown.User, shown.Password, shown.HasPassword = credentials(r.Header.Get("Authorization"))
	return shown
}

// refusal is an error of who is not admitted as a problem, nil for nil.
func refusal(err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrNoRight):
		return &problem{http.StatusForbidden, "NOPERM", err.Error()}
	}
	return &problem{http.StatusUnauthorized, "NOAUTH", err.Error()}
}

// browsers tells requests that a browser sends for a page of another origin.
var browsers = http.NewCrossOriginProtection()

// foreign returns a problem for a change that nothing has to be shown for and that a
// page in this machine's browser may have sent: one of another origin, or one whose
// name has been made to resolve to this machine.
func foreign(r *http.Request) *problem {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err == nil || host == "localhost" {
		err = browsers.Check(r)
	}
	if err != nil {
		return &problem{http.StatusForbidden, "NOPERM", "a page of another origin may not change anything: set http-write-token, and send it"}
	}
	return nil
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

// seeing returns a handler for who may see, where something is asked for that beside a
// password: what tells of metrics has always been open to who has none.
func (a *api) seeing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.decider.Seen(server.PortHTTP) {
			if _, p := a.admit(r, server.RightSee); p != nil {
				sendProblem(w, p)
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}
