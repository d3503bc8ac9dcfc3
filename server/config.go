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

// Defaults of a Config's fields. For the other fields, comments say what their zero value
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

// DefaultIOThreads is half of the processors that Go uses, at least 1.
func DefaultIOThreads() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Config configures a Server.
type Config struct {
	// Logger receives log lines for the operator; nil discards them. Commands are not
	// logged.
	Logger *slog.Logger
	// HandshakeErrors returns how many TLS handshakes of clients have failed, for INFO; nil
	// without TLS.
	HandshakeErrors func() uint64
	// Audit receives a line for each change of more than counters; nil means Logger.
	Audit *slog.Logger
	// Decisions receives the replies about limits; nil means none.
	Decisions *decisions.Log
	// Version is Headgate's version, for INFO and HELLO; empty is "dev".
	Version string
	// Engine decides. Its clock is read once a batch. Required.
	Engine *engine.Engine

	// IOThreads is how many event loops serve plain TCP; 0 means DefaultIOThreads.
	IOThreads int
	// Workers is how many goroutines run long commands; 0 means 2.
	Workers int

	// Runtime is the initial runtime configuration; see [Server.Configure].
	Runtime Runtime

	// WriteTimeout is how long a peer may take none of its waiting output before its
	// connection is closed; 0 means for ever.
	WriteTimeout time.Duration
	// TCPKeepAlive is the interval of TCP's own probes; 0 means none.
	TCPKeepAlive time.Duration

	// MaxArgs bounds the arguments of a command; 0 means DefaultMaxArgs.
	MaxArgs int
	// MaxBulk bounds an argument in bytes; 0 means DefaultMaxBulk.
	MaxBulk int
	// QueryBufferLimit bounds the waiting input of a connection in bytes: half a command,
	// or the queue of a transaction. 0 means DefaultQueryBufferLimit.
	QueryBufferLimit int
	// OutputBufferSoft is the output in bytes from which on a connection runs no more
	// commands until its peer has read. 0 means DefaultOutputBufferSoft.
	OutputBufferSoft int
	// OutputBufferLimit is the output in bytes from which on a connection is closed: for a
	// huge reply, or unread messages. 0 means DefaultOutputBufferLimit.
	OutputBufferLimit int
	// MaxWaitingReplies is how many replies of a connection may wait for a commit before
	// the connection stalls; 0 means DefaultMaxWaitingReplies.
	MaxWaitingReplies int

	// NoGateways reports that no gateway is trusted to name its clients, so that routes by
	// the addresses of clients are refused.
	NoGateways bool

	// Replication makes the server part of a cluster; nil means a node on its own.
	Replication partition.Replication
	// Redirect is what a node that does not decide does with commands for the leader. The
	// zero value forwards them.
	Redirect Redirect
	// OnFailure is the failure policy.
	OnFailure partition.OnFailure
	// Backstop is how many times each limit partition.FailOpen admits at most; 0 means
	// partition.DefaultBackstop.
	Backstop int64
	// ForwardTimeout is how long a command may take to reach the leader. The leader may
	// then take as long again to answer. After these times, OnFailure applies. 0 means
	// DefaultForwardTimeout.
	ForwardTimeout time.Duration
	// HandoverWait is how long commands wait for the next leader in a planned handover; 0
	// means not at all.
	HandoverWait time.Duration

	// Settings answers CONFIG GET and SET; nil has no parameters.
	Settings Settings
	// Info adds to INFO; may be nil.
	Info InfoSource
	// Stop is called by SHUTDOWN, on a goroutine of its own; nil refuses the command.
	Stop func()
}

// Settings are the parameters of CONFIG GET and SET. Their owner passes those of the server
// to [Server.Configure]. Names are in lower case. Methods are called by any goroutine.
type Settings interface {
	// Names lists the parameters.
	Names() []string
	// Get returns a parameter's value.
	Get(name string) (value string, ok bool)
	// Set changes parameters, given as pairs of name and value, all or none. It returns
	// when the changes are in force. Its error says why not, without a prefix, such as
	// "argument must be a memory value". failed is the index of the wrong pair.
	Set(pairs [][2]string) (failed int, err error)
}

// noSettings has no parameters.
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

// withDefaults returns c with defaults in place of zero values, or an error that names an
// invalid field.
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

// minQueryBuffer is the least query buffer: the input of a client before it has
// authenticated (10 arguments of 16 KiB), and one read more.
const minQueryBuffer = 256 << 10

// Redirect is how a client of a node that does not decide gets to the leader.
type Redirect uint8

const (
	// RedirectForward forwards commands to the leader and its replies back: any client may
	// use any node.
	RedirectForward Redirect = iota
	// RedirectMoved answers MOVED, for clients of Redis Cluster.
	RedirectMoved
)
