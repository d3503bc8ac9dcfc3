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

// open reports whether a right needs nothing to be shown.
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

// admitsGateway is admits for a gateway, which may take a late answer for a yes.
func (a *api) admitsGateway(r *http.Request) *problem {
	if a.open(access.RightRead) {
		return nil
	}
	_, err := a.decider.AdmitAtOnce(access.PortHTTP, a.shown(r), access.RightRead)
	return refusal(err)
}

// admit returns who sends a request that needs a right, or why it may not be sent.
func (a *api) admit(r *http.Request, right access.Right) (server.Client, *problem) {
	who, err := a.decider.Admit(r.Context(), access.PortHTTP, a.shown(r), right)
	if errors.Is(err, access.ErrGuesses) || r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	if err != nil || !a.open(right) {
		return who, refusal(err)
	}
	if right == access.RightWrite {
		return who, foreign(r)
	}
	return who, a.rebound(r)
}

// shown is what a request shows of who sends it.
func (a *api) shown(r *http.Request) *access.Shown {
	shown := &access.Shown{Address: r.RemoteAddr, Local: a.local, Certificates: access.CertificateNames(r.TLS)}
	shown.User, shown.Password, shown.HasPassword = credentials(r.Header.Get("Authorization"))
	return shown
}

// refusal is an error of who is not admitted as a problem, nil for nil.
func refusal(err error) *problem {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrNoRight):
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
	host := hostOf(r)
	err := browsers.Check(r)
	if err != nil || host != "localhost" && !isAddress(host) {
		return &problem{http.StatusForbidden, "NOPERM", "a page of another origin may not change anything: set http-write-token, and send it"}
	}
	return nil
}

// rebound returns a problem for a request that nothing has to be shown for and that
// names this machine, whose port nobody else reaches, as a page in its browser would
// whose name has been made to resolve to it. Names without a dot are nobody's. Gateways
// are not asked: they may pass on what their clients call them.
func (a *api) rebound(r *http.Request) *problem {
	host := hostOf(r)
	if !a.local || strings.IndexByte(host, '.') < 0 || isAddress(host) || strings.HasSuffix(host, ".localhost") || host == "localhost.localdomain" {
		return nil
	}
	return &problem{http.StatusForbidden, "NOPERM", "this port is for this machine, by its address or as localhost: for other names set http-read-token and http-see-token, and send them"}
}

// hostOf is the name or address that a request is sent to, without its port.
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
