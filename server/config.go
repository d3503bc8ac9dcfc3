package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/decisions"
)

// Defaults of a Config's fields. For other fields, their comments say what the zero value
// means.
const (
	DefaultMaxArgs           = 1 << 20
	DefaultMaxBulk           = 16 << 20
	DefaultQueryBufferLimit  = 64 << 20
	DefaultOutputBufferSoft  = 1 << 20
	DefaultOutputBufferLimit = 256 << 20
	DefaultMaxWaitingReplies = 4096
	DefaultForwardTimeout    = 100 * time.Millisecond
)

// DefaultIOThreads returns half of the number of processors that Go uses, but at least 1.
func DefaultIOThreads() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// MaxParts is the largest number of partitions.
const MaxParts = 1024

// Part configures a partition of the keys.
type Part struct {
	// Engine decides limits and stores keys. The server reads its clock once per batch of
	// commands. Required.
	Engine *engine.Engine
	// Replication is the part's role in a cluster. It is nil for a node without a cluster.
	Replication partition.Replication
}

// One returns the parts of a server with one partition.
func One(e *engine.Engine, r partition.Replication) []Part { return []Part{{e, r}} }

// tables returns the sums of the figures of this node's tables, one for each part.
func (c *Config) tables() engine.Stats {
	var engines []*engine.Engine
	for _, p := range c.Parts {
		engines = append(engines, p.Engine)
	}
	return engine.Sum(engines)
}

// Config configures a Server.
type Config struct {
	// Logger gets the log lines for the operator; nil discards them. It does not log
	// clients' commands.
	Logger *slog.Logger
	// HandshakeErrors returns how many TLS handshakes of clients have failed, for INFO. It
	// is nil without TLS.
	HandshakeErrors func() uint64
	// Audit gets a line for each change of anything other than counters. If Audit is nil,
	// Logger gets the lines.
	Audit *slog.Logger
	// Decisions gets the replies about limits; nil means that there is no decision log.
	Decisions *decisions.Log
	// Version is Headgate's version, for INFO and HELLO; "" means "dev".
	Version string
	// Parts are the partitions of the keys, at least one and at most MaxParts. Part i of n
	// has the slots partition.RangeOf(i, n).
	Parts []Part

	// IOThreads is the number of event loops for plain TCP connections; 0 means
	// DefaultIOThreads.
	IOThreads int
	// Workers is the number of goroutines that run long commands; 0 means 2.
	Workers int

	// Runtime is the initial runtime configuration; see [Server.Configure].
	Runtime Runtime

	// WriteTimeout is how long a peer may leave its output unread before its connection is
	// closed; 0 means forever.
	WriteTimeout time.Duration
	// TCPKeepAlive is the interval of TCP's own probes; 0 means no probes.
	TCPKeepAlive time.Duration

	// MaxArgs bounds the number of a command's arguments; 0 means DefaultMaxArgs.
	MaxArgs int
	// MaxBulk bounds the size of an argument, in bytes; 0 means DefaultMaxBulk.
	MaxBulk int
	// QueryBufferLimit bounds how many bytes of input a connection may have that have not
	// run yet: an incomplete command, or the queued commands of a transaction. 0 means
	// DefaultQueryBufferLimit.
	QueryBufferLimit int
	// OutputBufferSoft is how many bytes of unread output a connection may have while it
	// runs commands. With more, the connection runs no commands until the peer has read. 0
	// means DefaultOutputBufferSoft.
	OutputBufferSoft int
	// OutputBufferLimit is how many bytes of unread output a connection may have. With
	// more, from a huge reply or unread messages, the connection is closed. 0 means
	// DefaultOutputBufferLimit.
	OutputBufferLimit int
	// MaxWaitingReplies is how many replies of a connection may wait for a commit. If so
	// many wait, the connection runs no commands until some replies have left. 0 means
	// DefaultMaxWaitingReplies.
	MaxWaitingReplies int

	// NoGateways reports that no gateway is trusted to say who its clients are. The server
	// then refuses routes by the addresses of clients.
	NoGateways bool

	// OnFailure is the failure policy: what a node answers without a leader.
	OnFailure partition.OnFailure
	// Backstop bounds what partition.FailOpen admits: each limit admits at most Backstop
	// times its units. 0 means partition.DefaultBackstop.
	Backstop int64
	// ForwardTimeout is how long a command may take to reach the leader, and how long the
	// leader may then take to answer. If either takes longer, OnFailure applies. 0 means
	// DefaultForwardTimeout.
	ForwardTimeout time.Duration
	// HandoverWait is how long commands wait for the next leader in a planned handover; 0
	// means that they do not wait.
	HandoverWait time.Duration

	// Settings handles CONFIG GET and SET; nil means that there are no parameters.
	Settings Settings
	// Info adds fields to INFO; it may be nil.
	Info InfoSource
	// Stop is what SHUTDOWN calls, on a new goroutine. If it is nil, SHUTDOWN is refused.
	Stop func()
}

// Settings holds the parameters of CONFIG GET and SET. It must pass changes of the server's
// own parameters to [Server.Configure]. Names are in lower case. Any goroutine may call the
// methods.
type Settings interface {
	// Names returns the names of the parameters.
	Names() []string
	// Get returns a parameter's value; ok is false if there is no such parameter.
	Get(name string) (value string, ok bool)
	// Set changes parameters, given as pairs of name and value: either all or none. It
	// returns when the changes are in force. Its error says why nothing was changed,
	// without a prefix, such as "argument must be a memory value". failed is then the index
	// of the invalid pair.
	Set(pairs [][2]string) (failed int, err error)
}

// noSettings has no parameters.
type noSettings struct{}

func (noSettings) Names() []string              { return nil }
func (noSettings) Get(string) (string, bool)    { return "", false }
func (noSettings) Set([][2]string) (int, error) { return 0, errors.New("unknown parameter") }

// InfoField is a line of INFO.
type InfoField struct{ Name, Value string }

// InfoSource adds fields to INFO. Any goroutine may call its method.
type InfoSource interface {
	// Info returns the fields to add to a section. section is in lower case.
	Info(section string) []InfoField
}

// withDefaults returns c with defaults instead of zero values. It returns an error that
// names an invalid field.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = c.Logger
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if len(c.Parts) < 1 || len(c.Parts) > MaxParts {
		return c, fmt.Errorf("there are %d parts, out of 1 to %d", len(c.Parts), MaxParts)
	}
	for _, p := range c.Parts {
		if p.Engine == nil {
			return c, errors.New("engine is missing")
		}
	}
	if c.Settings == nil {
		c.Settings = noSettings{}
	}
	c.ForwardTimeout = cmp.Or(c.ForwardTimeout, DefaultForwardTimeout)
	if min(c.WriteTimeout, c.TCPKeepAlive, c.ForwardTimeout, c.HandoverWait) < 0 {
		return c, errors.New("a timeout is negative")
	}
	for _, f := range []struct {
		name  string
		value *int
		zero  int
		max   int
	}{
		{"IOThreads", &c.IOThreads, DefaultIOThreads(), 128},
		{"Workers", &c.Workers, 2, 1024},
		{"MaxArgs", &c.MaxArgs, DefaultMaxArgs, 1 << 24},
		{"MaxBulk", &c.MaxBulk, DefaultMaxBulk, 512 << 20},
		{"QueryBufferLimit", &c.QueryBufferLimit, DefaultQueryBufferLimit, 1 << 30},
		{"OutputBufferSoft", &c.OutputBufferSoft, DefaultOutputBufferSoft, 1 << 30},
		{"OutputBufferLimit", &c.OutputBufferLimit, DefaultOutputBufferLimit, 1 << 40},
		{"MaxWaitingReplies", &c.MaxWaitingReplies, DefaultMaxWaitingReplies, 1 << 24},
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if *f.value < 1 || *f.value > f.max {
			return c, fmt.Errorf("%s is %d, out of 1 to %d", f.name, *f.value, f.max)
		}
	}
	if c.OutputBufferSoft > c.OutputBufferLimit {
		return c, errors.New("soft output buffer limit is above the hard one")
	}
	if c.QueryBufferLimit < minQueryBuffer || c.QueryBufferLimit < c.MaxBulk {
		return c, fmt.Errorf("query buffer limit is %d, below MaxBulk or %d", c.QueryBufferLimit, minQueryBuffer)
	}
	return c, nil
}

// minQueryBuffer is the smallest allowed query buffer, in bytes. It has room for the input
// of a client before authentication (10 arguments of 16 KiB) and for one more read.
const minQueryBuffer = 256 << 10

// Runtime is the configuration that can change while a server runs.
type Runtime struct {
	// RequirePass is the password of the default user. If it is empty, everyone is
	// admitted.
	RequirePass string
	// AdminPass is the password of the user admin, the only user who may run guarded
	// commands. If it is empty, that user does not exist, and everyone may run them.
	AdminPass string
	// Access has the rules of the other fronts, by access.Port: they say who may do what.
	Access [access.PortCount]access.Grants
	// Protected refuses clients from other hosts while no password is set.
	Protected bool
	// MaxClients bounds the connected clients; 0 means no bound.
	MaxClients int
	// ClientMemory bounds the memory of all clients together, in bytes. Above it, the
	// server closes the clients that use the most. 0 means no bound.
	ClientMemory int64
	// Timeout is how long a connection may be idle before it is closed; 0 means forever.
	Timeout time.Duration
	// Commands that take at least SlowlogThreshold enter the slow log. A negative value
	// turns the slow log off.
	SlowlogThreshold time.Duration
	// SlowlogMaxLen is how many entries the slow log keeps; 0 turns it off.
	SlowlogMaxLen int
	// DecisionsDenied is how many lines per second Config.Decisions writes for denied
	// calls. Of the calls that pass, one in DecisionsOneIn gets a line. 0 means no lines.
	DecisionsDenied, DecisionsOneIn int64
	// ScriptTime is how long a script may compute; 0 means 5 s.
	ScriptTime time.Duration
}

// Configure puts r into force. Clients that have authenticated stay authenticated, and no
// connection is closed because of MaxClients. Configure must not be called twice at the
// same time.
func (s *Server) Configure(r Runtime) {
	s.runtime.Store(&r)
	s.slow.setMaxLen(r.SlowlogMaxLen)
	if log := s.cfg.Decisions; log != nil {
		log.SetRates(r.DecisionsDenied, r.DecisionsOneIn)
		s.setMode(modeDecisions, r.DecisionsDenied > 0 || r.DecisionsOneIn > 0)
	}
	s.setMode(modeTimeAll, r.SlowlogMaxLen > 0 && r.SlowlogThreshold >= 0 && r.SlowlogThreshold < timeAllBelow)
}

// setMode sets or clears a bit for all connections. A lane uses it from its next batch on.
func (s *Server) setMode(m mode, on bool) {
	if on {
		s.mode.Or(uint32(m))
	} else {
		s.mode.And(^uint32(m))
	}
}
