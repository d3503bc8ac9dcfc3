package web

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
	"github.com/headgate-io/headgate/server/web/admin"
)

const (
	// maxManaged bounds the requests of the admin API that run at a time. maxHeavy bounds
	// the requests with long bodies or answers, which may take up to 16 MiB each and some
	// copies.
	maxManaged = 32
	maxHeavy   = 2
)

// semaphore bounds the requests that run at a time.
type semaphore chan struct{}

// take takes a place and reports whether a place was free. done gives the place back.
func (s semaphore) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s semaphore) done() { <-s }

var errManaged = &problem{http.StatusServiceUnavailable, "BUSY", "too many requests about policies at a time"}

// manage adds the requests of the admin API to a mux.
func (a *api) manage(mux *http.ServeMux, routes map[string]map[string]admin.Method) {
	for path, methods := range routes {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			method, ok := methods[r.Method]
			if !ok {
				w.Header().Set("Allow", allowed)
				sendProblem(w, &problem{status: http.StatusMethodNotAllowed, detail: "use " + allowed})
				return
			}
			a.managed(w, r, &method)
		})
	}
}

// managed answers a request to an admin path, by its HTTP method.
func (a *api) managed(w http.ResponseWriter, r *http.Request, m *admin.Method) {
	x := a.newExchange(w, r, fronts.NameHTTP)
	defer x.end()
	who, p := a.admit(r, m.Right)
	if p == nil {
		p = checkBody(r, m)
	}
	if p == nil {
		p = a.perform(x, who, m)
	}
	if p != nil {
		sendProblem(w, p)
	}
}

// checkBody returns a problem if the request's body has a content type that the method does
// not accept.
func checkBody(r *http.Request, m *admin.Method) *problem {
	if m.Types == nil {
		if r.ContentLength != 0 {
			return badRequest(errors.New("this takes no body"))
		}
		return nil
	}
	if values := r.Header["Content-Type"]; len(values) == 1 {
		if kind, _, err := mime.ParseMediaType(values[0]); err == nil && slices.Contains(m.Types, kind) {
			return nil
		}
	}
	return &problem{status: http.StatusUnsupportedMediaType, detail: "the body must have Content-Type: " + strings.Join(m.Types, " or ")}
}

// perform reads the body and answers. It takes a place in the semaphore only after the body
// has arrived, so a slow sender keeps nobody out.
func (a *api) perform(x *exchange, who server.Client, m *admin.Method) *problem {
	if m.Types == nil {
		x.received()
	} else if p := x.receive(m.MaxBody); p != nil {
		return p
	} else if len(x.body) == 0 {
		return badRequest(errors.New("the body is empty"))
	}
	if !a.managing.take() {
		return errManaged
	}
	defer a.managing.done()
	if m.Heavy {
		if !a.heavy.take() {
			return errManaged
		}
		defer a.heavy.done()
	}
	answer, err := m.Handle(&admin.Request{Request: x.r, Who: who, Body: x.body})
	if err != nil {
		return problemOfAdmin(x, err)
	}
	h := x.w.Header()
	if tag := answer.ETag(); tag != "" {
		h.Set("ETag", tag)
	}
	status, kind := http.StatusOK, typeJSON
	if answer.Status != 0 {
		status = answer.Status
	}
	if answer.Type != "" {
		kind = []string{answer.Type}
	}
	if status == http.StatusNotModified {
		h["Cache-Control"] = noStore
		x.w.WriteHeader(status)
		return nil
	}
	send(x.w, status, kind, answer.Body)
	return nil
}

// problemOfAdmin converts an error of the admin API to a problem.
func problemOfAdmin(x *exchange, err error) *problem {
	own := new(admin.Error)
	if !errors.As(err, &own) {
		return problemOf(err)
	}
	if own.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", strconv.FormatInt(verdict.Seconds(own.RetryAfter.Milliseconds())+1, 10))
	}
	return &problem{own.Status, own.Code, own.Detail}
}
