package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate-io/headgate/server/events"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/web/admin"
	"github.com/headgate-io/headgate/server/web/console"

	"github.com/headgate-io/headgate/internal/poll"
)

// Bounds of a connection, which no usual client reaches. Each route that reads a body has
// its own bound for the body.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	idleTimeout       = 60 * time.Second
	// writeTimeout leaves time for a profile or a trace of up to a minute before its first
	// piece is written.
	writeTimeout   = 90 * time.Second
	maxHeaderBytes = 16 << 10
	// maxScrapes bounds the scrapes at a time; a scrape visits every shard.
	maxScrapes = 4
)

// Config configures a Server.
type Config struct {
	// Source provides the metrics.
	Source Source
	// Version is the version shown by headgate_build_info.
	Version string
	// Logger logs the errors of connections.
	Logger *slog.Logger
	// Pprof serves Go's profiles under /debug/pprof/.
	Pprof bool
	// Console serves the console at /, and the documents below /docs/.
	Console bool
	// Busy returns how long a thread that serves other clients has been busy with the same
	// commands. If Busy is nil, no thread counts as busy.
	Busy func() time.Duration
	// Decider answers the requests under /v1/. If it is nil, nothing is served there.
	Decider Decider
	// View supplies the state of the node and its cluster. If it is nil, the admin API is
	// not served.
	View admin.View
	// Memory reserves n bytes in the account of all clients, and returns false if too few
	// are left. A negative n gives bytes back. If Memory is nil, there is no account.
	Memory func(n int) bool
	// Local reports that only this machine can reach the port.
	Local bool
	// Fronts counts the requests for verdicts under /v1/, and the metrics show the counts.
	// If Fronts is nil, the server makes its own counts.
	Fronts *fronts.Counts
	// Events is the log that /v1/events serves; nil serves none.
	Events *events.Log
	// TrustedProxies are the networks of gateways whose statements about their clients the
	// server believes.
	TrustedProxies []netip.Prefix
	// MaxClients bounds the connections; 0 means DefaultMaxClients.
	MaxClients int
	// Fit returns why /readyz must turn traffic away even if the process is ready; nil if
	// there is no reason. A nil Fit gives no reasons.
	Fit func() error
}

// Server is the HTTP front. It is not ready until SetReady.
type Server struct {
	http     http.Server
	conns    connections
	ready    atomic.Bool
	draining atomic.Bool
	// end closes ending when long answers must end.
	ending chan struct{}
	end    func()
	// watch keeps the history of the admin API until ending is closed.
	watch   func()
	watches sync.Once
	fit     func() error
	busy    func() time.Duration
}

const (
	// If a thread is busy for unreadyAfter, /readyz turns traffic away. If it is busy for
	// unhealthyAfter, /healthz asks for a restart.
	unreadyAfter   = time.Second
	unhealthyAfter = 5 * time.Second
)

// New returns a Server. It listens on no port until Serve.
func New(c Config) *Server {
	s := &Server{fit: c.Fit, busy: c.Busy, ending: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ending) })
	if c.Fronts == nil {
		c.Fronts = fronts.New()
	}
	if s.busy == nil {
		s.busy = func() time.Duration { return 0 }
	}
	s.conns.most = cmp.Or(c.MaxClients, DefaultMaxClients)
	var a *api
	seeing := func(h http.Handler) http.Handler { return h }
	if c.Decider != nil {
		a = newAPI(&c, &s.conns, s.ending)
		seeing = a.seeing
		if a.admin != nil {
			s.watch = func() { a.admin.Watch(s.ending) }
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", seeing(promhttp.HandlerFor(newRegistry(c), promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{c.Logger},
		MaxRequestsInFlight: maxScrapes,
	})))
	if c.Pprof {
		mux.Handle("/debug/pprof/", seeing(profiles()))
	}
	if c.Console { // neither holds anything of the node, so they need no right
		console.Register(mux)
		mux.HandleFunc("GET /docs/", documents)
	}
	all := http.NewServeMux()
	all.Handle("/", s.conns.serving(mux))
	handler := http.Handler(all)
	if a != nil {
		a.routes(all)
		handler = a.first(all)
	}
	s.http = http.Server{
		Handler:           s.parting(s.conns.patient(handler)),
		ConnContext:       s.conns.context,
		ConnState:         s.conns.changed,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// A broken handshake or request is the peer's fault, not worth a warning.
		ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// profiles serves Go's profiles.
func profiles() http.Handler {
	mux := http.NewServeMux()
	// Index also serves the named profiles, such as heap.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	// The command line appears without arguments, because one of them may be the password.
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, os.Args[0]) })
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.Handle("POST /debug/pprof/symbol", http.MaxBytesHandler(http.HandlerFunc(pprof.Symbol), maxBodyBytes)) // for go tool pprof
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// Serve answers the connections of l until Shutdown, and closes l.
func (s *Server) Serve(l net.Listener) error {
	s.watches.Do(func() {
		if s.watch != nil {
			go s.watch()
		}
	})
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler answers requests as Serve does.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// SetReady sets whether /readyz may answer 200. If ready is false, or Fit returns an error,
// /readyz answers 503.
func (s *Server) SetReady(ready bool) { s.ready.Store(ready) }

// drainTime is how long Drain waits for idle connections to end.
const drainTime = 250 * time.Millisecond

// Drain makes the server unready, and makes each answer the last one on its connection. The
// client must then connect again, to this server or, better, to a different server. Drain returns
// when no connection is left, after drainTime, or when ctx is done, whichever is first. The
// server still answers requests after Drain.
func (s *Server) Drain(ctx context.Context) {
	s.SetReady(false)
	s.draining.Store(true)
	s.end()
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	_ = poll.Until(ctx, 5*time.Millisecond, func() bool { return s.conns.len() == 0 })
}

// parting wraps h so that its answers close their connections during Drain.
func (s *Server) parting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Shutdown stops listening and waits for the requests in work. When ctx is done, it cuts
// off the remaining requests.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	err := s.http.Shutdown(ctx)
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if busy := s.busy(); busy > unhealthyAfter {
		plain(w, http.StatusServiceUnavailable, stuck(busy))
		return
	}
	plain(w, http.StatusOK, "ok")
}

func stuck(busy time.Duration) string {
	return fmt.Sprintf("clients wait: a thread has been busy with the same commands for %v", busy.Round(time.Second/10))
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusOK, "ready")
}

var errNotReady = errors.New("not ready")

// Ready returns why /readyz turns traffic away, or nil.
func (s *Server) Ready() error {
	if busy := s.busy(); busy > unreadyAfter {
		return fmt.Errorf("%w: %s", errNotReady, stuck(busy))
	}
	if s.fit != nil {
		if err := s.fit(); err != nil {
			return fmt.Errorf("%w: %w", errNotReady, err)
		}
	}
	if !s.ready.Load() {
		return errNotReady
	}
	return nil
}

// plain writes a line of text that must not be cached.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the peer has gone.
	_, _ = io.WriteString(w, text+"\n")
}
