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
	"github.com/headgate-io/headgate/server/decisions"
)

// Defaults of a Config's fields. The others have none: their zero value means
// what its comment says.
const (
	DefaultMaxArgs           = 1 << 20
	DefaultMaxBulk           = 16 << 20
	DefaultQueryBufferLimit  = 64 << 20
	DefaultOutputBufferSoft  = 1 << 20
	DefaultOutputBufferLimit = 256 << 20
	DefaultMaxWaitingReplies = 4096
	DefaultForwardTimeout    = 100 * time.Millisecond
)

// DefaultIOThreads is half of the processors that Go uses, at least 1.
func DefaultIOThreads() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Config configures a Server.
type Config struct {
	// Logger receives what an operator should know; nil discards it. Nothing
	// is logged per command.
	Logger *slog.Logger
	// HandshakeErrors returns how many TLS handshakes of clients have failed, for
	// INFO; nil without TLS.
	HandshakeErrors func() uint64
	// Audit receives a line for what changes more than counters; nil is Logger.
	Audit *slog.Logger
	// Decisions is told what clients are answered about limits; nil is not.
	Decisions *decisions.Log
	// Version is Headgate's version, for INFO and HELLO; empty is "dev".
	Version string
	// Engine decides, and its clock is read once per batch; required.
	Engine *engine.Engine

	// IOThreads is how many event loops serve plain TCP; 0 is
	// DefaultIOThreads.
	IOThreads int
	// Workers is how many goroutines run long commands; 0 is 2.
	Workers int

	// Runtime is what the server starts with; see [Server.Configure].
	Runtime Runtime

	// WriteTimeout closes connections whose peer has taken no output for so
	// long while some waits; 0 never does.
	WriteTimeout time.Duration
	// TCPKeepAlive is the interval of TCP's own probes; 0 is none.
	TCPKeepAlive time.Duration

	// MaxArgs is the most arguments of a command; 0 is DefaultMaxArgs.
	MaxArgs int
	// MaxBulk is the longest argument in bytes; 0 is DefaultMaxBulk.
	MaxBulk int
	// QueryBufferLimit is the most input in bytes that a connection may have
	// waiting, half a command or a transaction's queue; 0 is
	// DefaultQueryBufferLimit.
	QueryBufferLimit int
	// OutputBufferSoft is the output in bytes from which on a connection
	// runs no further commands until its peer has read; 0 is
	// DefaultOutputBufferSoft.
	OutputBufferSoft int
	// OutputBufferLimit is the output in bytes from which on a connection is
	// closed: a single huge reply, or messages nobody reads; 0 is
	// DefaultOutputBufferLimit.
	OutputBufferLimit int
	// MaxWaitingReplies is how many replies of a connection may wait for a
	// commit before it stalls; 0 is DefaultMaxWaitingReplies.
	MaxWaitingReplies int

	// NoGateways tells that no gateway is trusted to say for whom it asks, so that
	// routes by the addresses of clients are refused.
	NoGateways bool

	// Replication makes the server part of a cluster; nil is a node on its
	// own.
	Replication partition.Replication
	// Redirect is what a node that does not decide does with commands for
	// the leader; the zero value forwards them.
	Redirect Redirect
	// OnFailure is what answers while no leader does.
	OnFailure partition.OnFailure
	// Backstop is how many times each limit partition.FailOpen admits at most; 0 is
	// partition.DefaultBackstop.
	Backstop int64
	// ForwardTimeout is how long a command may take to reach the leader, and the
	// leader then to answer it, before OnFailure applies; 0 is
	// DefaultForwardTimeout.
	ForwardTimeout time.Duration
	// HandoverWait is how long commands wait for the next leader of a
	// planned handover; with 0 they do not.
	HandoverWait time.Duration

	// Settings answers CONFIG GET and SET; nil knows no parameter.
	Settings Settings
	// Info adds to INFO; may be nil.
	Info InfoSource
	// Stop is called by SHUTDOWN, on a goroutine of its own; nil refuses the
	// command.
	Stop func()
}

// Settings are the parameters of CONFIG GET and SET. Their owner gives those
// that are the server's to [Server.Configure]. Names are in lower case. Methods
// are called by any goroutine.
type Settings interface {
	// Names lists the parameters.
	Names() []string
	// Get returns a parameter's value.
	Get(name string) (value string, ok bool)
	// Set changes parameters, given as pairs of name and value, all or none,
	// and returns when the changes are in force. Its error says why not,
	// without prefix, such as "argument must be a memory value", and comes
	// with the index of the pair at fault.
	Set(pairs [][2]string) (failed int, err error)
}

// noSettings knows no parameter.
type noSettings struct{}

func (noSettings) Names() []string              { return nil }
func (noSettings) Get(string) (string, bool)    { return "", false }
func (noSettings) Set([][2]string) (int, error) { return 0, errors.New("unknown parameter") }

// InfoField is a line of INFO.
type InfoField struct{ Name, Value string }

// InfoSource adds fields to INFO. Its method is called by any goroutine.
type InfoSource interface {
	// Info returns the fields to add to a section; name is in lower case.
	Info(section string) []InfoField
}

// withDefaults returns c with zero values replaced, or an error that names the
// field that makes no sense.
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
	if c.Engine == nil {
		return c, errors.New("engine is missing")
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

// minQueryBuffer is the least query buffer: what a client may send before it has
// authenticated (10 arguments of 16 KiB) and one read beyond it.
const minQueryBuffer = 256 << 10

// Redirect is how a client of a node that does not decide gets to the leader.
type Redirect uint8

const (
	// RedirectForward passes commands on to the leader and its replies back:
	// any client may talk to any node.
	RedirectForward Redirect = iota
	// RedirectMoved answers MOVED, for clients of Redis Cluster.
	RedirectMoved
)
