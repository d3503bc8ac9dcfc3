package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/decisions"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
	"github.com/headgate-io/headgate/server/web/admin"
)

// Decider runs commands for the front, as [server.Caller] does.
type Decider interface {
	// Pipeline runs commands and appends their replies in RESP3 to dst.
	Pipeline(ctx context.Context, from decisions.Asker, dst, commands []byte) ([]byte, error)
	// PipelineAs runs the commands of Pipeline on behalf of a client.
	PipelineAs(ctx context.Context, who server.Client, dst, commands []byte) ([]byte, error)
	// Routes returns the set of routes with a name; nil if there is none.
	Routes(name string) *policy.Routes
	// Open reports whether a right needs no credentials. Seen reports whether a token or a
	// certificate grants the right to see, apart from the password.
	Open(port access.Port, right access.Right, local bool) bool
	Seen(port access.Port) bool
	// Admit returns the client of a request that needs a right.
	Admit(ctx context.Context, port access.Port, shown *access.Shown, right access.Right) (server.Client, error)
	// AdmitAtOnce does the same as Admit, but never waits before it answers.
	AdmitAtOnce(port access.Port, shown *access.Shown, right access.Right) (server.Client, error)
}

const (
	// maxBodyBytes bounds the body of one call. An attribute has up to 4 KiB.
	maxBodyBytes = 64 << 10
	// maxBatchBytes bounds the body of a batch.
	maxBatchBytes = 1 << 20
)

// api answers the requests under /v1/.
type api struct {
	decider Decider
	conns   *connections
	trusted []netip.Prefix
	local   bool // see Config
	now     func() time.Time
	memory  budget // for batches and long bodies
	fronts  *fronts.Counts

	admin           *admin.API
	managing, heavy semaphore

	streams streams // refuses clients if the node keeps no log of events
}

// posts are the handlers of POST requests, by path.
var posts = map[string]func(*api, *exchange) *problem{
	"/v1/check":        (*api).check,
	"/v1/limits:check": (*api).check,
	"/v1/reserve":      (*api).reserve,
	"/v1/commit":       (*api).commit,
	"/v1/cancel":       (*api).cancel,
	pathBatch:          (*api).batch,
	"/v1/acquire":      (*api).acquire,
	"/v1/release":      (*api).release,
	"/v1/extend":       (*api).extend,
	"/v1/lease":        (*api).lease,
	"/v1/return":       (*api).giveBack,
}

const pathBatch = "/v1/check:batch"

// first answers the most frequent requests, and passes the others to next. A mux would take
// as long as a decision takes.
func (a *api) first(next http.Handler) http.Handler {
	next = a.gates(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := posts[r.URL.Path]; answer != nil {
			a.post(w, r, answer)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newAPI(c *Config, conns *connections, ending <-chan struct{}) *api {
	a := &api{decider: c.Decider, conns: conns, trusted: c.TrustedProxies, local: c.Local, now: time.Now, fronts: c.Fronts}
	a.streams = streams{c.Events, make(semaphore, maxStreams), ending}
	a.memory.left.Store(maxBatchMemory)
	if a.memory.account = c.Memory; a.memory.account == nil {
		a.memory.account = func(int) bool { return true }
	}
	if c.View != nil {
		a.admin = admin.New(c.Decider, c.View)
		a.managing, a.heavy = make(semaphore, maxManaged), make(semaphore, maxHeavy)
	}
	return a
}

// routes adds the api's other requests to a mux.
func (a *api) routes(mux *http.ServeMux) {
	if a.admin != nil {
		a.manage(mux, a.admin.Routes())
		mux.HandleFunc(pathRoutesTest, a.testRoutes)
	}
	if a.streams.log != nil {
		mux.Handle("GET /v1/events", a.conns.serving(http.HandlerFunc(a.stream)))
	}
	mux.Handle("GET /v1/openapi.yaml", a.conns.serving(http.HandlerFunc(document)))
	mux.Handle("/v1/", a.conns.serving(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sendProblem(w, &problem{status: http.StatusNotFound, detail: "no such path: see /v1/openapi.yaml"})
	})))
}

// exchange is a request that the server is answering, with its buffers.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	front    string // the front's name in the decision log
	conns    *connections
	serving  *connection // set once the whole request has arrived
	memory   *budget
	taken    int // bytes taken from api.memory
	body     []byte
	reader   jsonReader
	commands []byte
	replies  []byte
	out      []byte
	check    checkRequest
	settle   verdict.Settlement
	// forwarded is the request of a gateway's client.
	forwarded Forwarded
	found     policy.Found
	verdict   verdict.Verdict
	fields    verdict.Fields
	asked     time.Time // when the exchange asked for the verdict
	here      time.Time // when the whole request had arrived; zero before
	result    fronts.Result
}

// exchanges keeps exchanges and their buffers for other requests.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// roomKept is the size of the largest buffer that is reused.
const roomKept = 64 << 10

func (a *api) newExchange(w http.ResponseWriter, r *http.Request, front string) *exchange {
	x := exchanges.Get().(*exchange)
	x.w, x.r, x.front, x.conns, x.memory = w, r, front, a.conns, &a.memory
	return x
}

var _ decisions.Asker = (*exchange)(nil)

// Origin implements decisions.Asker.
func (x *exchange) Origin() decisions.Origin {
	h := x.r.Header
	return decisions.Origin{Front: x.front, Request: h.Get("X-Request-Id"), Trace: decisions.TraceID(h.Get("Traceparent"))}
}

// received notes that the whole request has arrived. Until it is answered, its connection
// is not closed to make room for a new connection.
func (x *exchange) received() {
	x.here = time.Now()
	x.serving = x.conns.begin(x.r)
}

func (x *exchange) end() {
	x.conns.end(x.serving)
	x.giveBack(x.taken)
	x.w, x.r, x.conns, x.serving, x.memory = nil, nil, nil, nil, nil
	x.here, x.result = time.Time{}, fronts.Allowed
	x.verdict = verdict.Verdict{Limits: x.verdict.Limits[:0], Soft: x.verdict.Soft[:0]}
	x.check = checkRequest{Call: verdict.Call{Attributes: x.check.Attributes[:0]}, chain: verdict.LimitCall{Limits: x.check.chain.Limits[:0]}}
	x.forwarded, x.found = Forwarded{}, policy.Found{}
	x.settle = verdict.Settlement{Attributes: x.settle.Attributes[:0]}
	if cap(x.body) > roomKept { // its attributes are views of the body
		x.reader = jsonReader{}
	}
	for _, room := range []*[]byte{&x.body, &x.commands, &x.replies, &x.out} {
		*room = emptied(*room)
	}
	exchanges.Put(x)
}

// emptied returns b with length 0 for reuse; nil if b is too large to keep.
func emptied(b []byte) []byte {
	if cap(b) > roomKept {
		return nil
	}
	return b[:0]
}

// post answers a POST with a JSON body. It calls answer to do so.
func (a *api) post(w http.ResponseWriter, r *http.Request, answer func(*api, *exchange) *problem) {
	x := a.newExchange(w, r, fronts.NameHTTP)
	defer x.end()
	p := checkPost(w, r)
	if p == nil {
		p = a.admits(r)
	}
	if p == nil {
		p = answer(a, x)
	}
	if p != nil {
		x.result = resultOf(p)
		sendProblem(w, p)
	}
	a.fronts.HTTP.Count(x.result, x.here)
}

// checkPost returns a problem unless a request is a POST with a JSON body.
func checkPost(w http.ResponseWriter, r *http.Request) *problem {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return &problem{status: http.StatusMethodNotAllowed, detail: "use POST"}
	case !isJSON(r.Header["Content-Type"]):
		return &problem{status: http.StatusUnsupportedMediaType, detail: "the body must have Content-Type: application/json"}
	}
	return nil
}

// isJSON reports whether a Content-Type field names JSON.
func isJSON(values []string) bool {
	if len(values) != 1 {
		return false
	}
	if values[0] == typeJSON[0] {
		return true
	}
	kind, _, err := mime.ParseMediaType(values[0])
	return err == nil && kind == typeJSON[0]
}

var errNoBody = errors.New("the body is empty, a JSON object is expected")

// read reads the body, up to most bytes, and calls parse on it.
func (x *exchange) read(most int, parse func(r *jsonReader) error) *problem {
	if p := x.receive(most); p != nil {
		return p
	}
	return x.parse(parse)
}

// receive reads the body, up to most bytes.
func (x *exchange) receive(most int) *problem {
	if x.r.ContentLength > int64(most) {
		return tooLong(most)
	}
	if n := min(int(x.r.ContentLength), maxBodyBytes) + 1; cap(x.body) < n {
		x.body = make([]byte, 0, n)
	}
	for {
		if len(x.body) == cap(x.body) {
			if p := x.grow(most + 1); p != nil {
				return p
			}
		}
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		if len(x.body) > most {
			return tooLong(most)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badRequest(fmt.Errorf("read the body: %w", err))
		}
	}
	x.received()
	return nil
}

func tooLong(most int) *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("the body is longer than %d bytes", most)}
}

// parse calls parse on the body, and converts its error to a problem.
func (x *exchange) parse(parse func(r *jsonReader) error) *problem {
	if len(x.body) == 0 {
		return badRequest(errNoBody)
	}
	r := &x.reader
	r.begin(x.body)
	err := parse(r)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return badRequest(err)
	}
	return nil
}

// grow enlarges the body's buffer, up to most bytes. The new size depends only on how many
// bytes have arrived, not on the length that a client announces.
func (x *exchange) grow(most int) *problem {
	n := min(max(2*cap(x.body), 1<<10), most)
	if n > maxBodyBytes+1 {
		if p := x.take(n); p != nil {
			return p
		}
	}
	x.body = append(make([]byte, 0, n), x.body...)
	return nil
}

// run runs commands, and stores their replies in the exchange.
func (a *api) run(x *exchange, commands []byte) *problem {
	x.asked = a.now()
	replies, err := a.decider.Pipeline(x.r.Context(), x, x.replies[:0], commands)
	x.replies = replies
	if err != nil {
		return problemOf(err)
	}
	return nil
}

// ask runs the command of the exchange and reads its verdict.
func (a *api) ask(x *exchange) *problem {
	if p := a.run(x, x.commands); p != nil {
		return p
	}
	if _, err := x.verdict.Read(x.replies); err != nil {
		return problemOf(err)
	}
	x.result = fronts.Of(x.verdict.Allowed)
	return nil
}

// Values of header fields that are the same in all answers.
var (
	typeJSON    = []string{"application/json"}
	typeProblem = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

// send writes an answer with a content type.
func send(w http.ResponseWriter, status int, kind []string, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = kind, noStore
	w.WriteHeader(status)
	// An error means that the peer has gone.
	_, _ = w.Write(body)
}

func sendProblem(w http.ResponseWriter, p *problem) {
	setProblem(w.Header(), p)
	send(w, p.status, typeProblem, p.append(nil))
}

// setProblem sets the header fields of a problem.
func setProblem(h http.Header, p *problem) {
	switch p.status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="headgate"`)
	}
}
