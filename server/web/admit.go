package web

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
)

// open reports whether a right needs no credentials.
func (a *api) open(right access.Right) bool {
	return a.decider.Open(access.PortHTTP, right, a.local)
}

// admits returns why a request may not ask for verdicts, or nil.
func (a *api) admits(r *http.Request) *problem {
	if a.open(access.RightRead) {
		return a.rebound(r)
	}
	_, p := a.admit(r, access.RightRead)
	return p
}

// admitsGateway does the same as admits for a gateway. It never waits, because a gateway
// may take a late answer as a yes.
func (a *api) admitsGateway(r *http.Request) *problem {
	if a.open(access.RightRead) {
		return nil
	}
	_, err := a.decider.AdmitAtOnce(access.PortHTTP, a.shown(r), access.RightRead)
	return refusal(err)
}

// admit returns the client of a request that needs a right. It returns a problem if the
// client may not send the request.
func (a *api) admit(r *http.Request, right access.Right) (server.Client, *problem) {
	who, err := a.decider.Admit(r.Context(), access.PortHTTP, a.shown(r), right)
	if errors.Is(err, access.ErrGuesses) || r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if err != nil || !a.open(right) {
		return who, refusal(err)
	}
	if right == access.RightWrite {
		return who, foreign(r)
	}
	return who, a.rebound(r)
}

// shown returns the credentials of a request and the address that it comes from.
func (a *api) shown(r *http.Request) *access.Shown {
	shown := &access.Shown{Address: r.RemoteAddr, Local: a.local, Certificates: access.CertificateNames(r.TLS)}
	shown.User, shown.Password, shown.HasPassword = credentials(r.Header.Get("Authorization"))
	return shown
}

// refusal converts an error of admission to a problem. It converts nil to nil.
func refusal(err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrNoRight):
		return &problem{http.StatusForbidden, "NOPERM", err.Error()}
	}
	return &problem{http.StatusUnauthorized, "NOAUTH", err.Error()}
}

// browsers detects requests that a browser sends for a page of another origin.
var browsers = http.NewCrossOriginProtection()

// foreign returns a problem for a change without credentials that a page in this machine's
// browser may have sent. Such a page is of another origin, or has reached this machine by
// DNS rebinding (see rebound).
func foreign(r *http.Request) *problem {
	host := hostOf(r)
	err := browsers.Check(r)
	if err != nil || host != "localhost" && !isAddress(host) {
		return &problem{http.StatusForbidden, "NOPERM", "a page of another origin may not change anything: set http-write-token and send it"}
	}
	return nil
}

// rebound returns a problem for a request without credentials that a page in this machine's
// browser may have sent by DNS rebinding. It applies where only this machine reaches the
// port. An attacker makes a name of theirs resolve to this machine, so Host is then a name
// with a dot. A name without a dot cannot belong to an attacker. Gateways are exempt,
// because they may pass on their clients' Host.
func (a *api) rebound(r *http.Request) *problem {
	host := hostOf(r)
	if !a.local || strings.IndexByte(host, '.') < 0 || isAddress(host) || strings.HasSuffix(host, ".localhost") || host == "localhost.localdomain" {
		return nil
	}
	return &problem{http.StatusForbidden, "NOPERM", "this port answers only to its address or localhost: to use another name, set http-read-token and http-see-token, and send them"}
}

// hostOf returns the host in a request's Host field, without the port.
func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// credentials reads an Authorization field. For a bearer token, the user is "".
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

// seeing wraps h with the check of RightSee. It applies only if a token or a certificate
// grants that right: metrics have always been readable without the password.
func (a *api) seeing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := a.rebound(r)
		if a.decider.Seen(access.PortHTTP) {
			_, p = a.admit(r, access.RightSee)
		}
		if p != nil {
			sendProblem(w, p)
			return
		}
		h.ServeHTTP(w, r)
	})
}
