package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/secret"
	"github.com/headgate-io/headgate/raftlog"
)

// Config is a resolved configuration. The fields are documented in the table
// of parameters, under the name of the flag.
type Config struct {
	Listen         string
	HTTPListen     string
	GRPCListen     string
	TrustedProxies []netip.Prefix
	UnixSocket     string
	UnixSocketPerm uint32
	TCPKeepalive   time.Duration

	TLSListen      string
	TLSCert        string
	TLSKey         string
	TLSCA          string
	TLSAuthClients string

	RequirePass   string
	AdminPass     string
	ProtectedMode bool

	HTTPTLSCert        string
	HTTPTLSKey         string
	HTTPTLSCA          string
	HTTPTLSAuthClients string
	HTTPReadToken      string
	HTTPSeeToken       string
	HTTPWriteToken     string
	HTTPReadCerts      []string
	HTTPSeeCerts       []string
	HTTPWriteCerts     []string
	AuditLog           string

	GRPCTLSCert        string
	GRPCTLSKey         string
	GRPCTLSCA          string
	GRPCTLSAuthClients string
	GRPCReadToken      string
	GRPCReadCerts      []string

	MaxClients                  int
	HTTPMaxClients              int
	GRPCMaxClients              int
	Timeout                     time.Duration
	WriteTimeout                time.Duration
	ProtoMaxBulkLen             int64
	MaxArgs                     int
	ClientQueryBufferLimit      int64
	ClientOutputBufferSoftLimit int64
	ClientOutputBufferLimit     int64
	MaxWaitingReplies           int

	MaxMemory             int64
	MaxMemoryShare        int // percent, if maxmemory was given so, else 0
	MaxMemoryPolicy       string
	MaxMemoryClients      int64 // or Auto: see ClientMemory
	MaxMemoryClientsShare int   // as MaxMemoryShare
	Shards                int
	LogMaxEntries         int
	LeaseShare            int // percent
	TopK                  int
	Policies              string

	DataDir            string
	NodeID             string
	PeerListen         string
	PeerAdvertise      string
	Advertise          string
	Join               []string
	BootstrapExpect    int
	Nonvoter           bool
	Durability         string
	Redirect           string
	OnFailure          string
	Backstop           int
	MaxUnacked         time.Duration
	ForwardTimeout     time.Duration
	HandoverWait       time.Duration
	RaftProfile        string
	StallTimeout       time.Duration
	NoFsync            bool
	SnapshotLogSize    int64
	SnapshotLogEntries int
	PeerSecretFile     string
	PeerTLSCert        string
	PeerTLSKey         string
	PeerTLSCA          string

	IOThreads       int
	ShutdownDelay   time.Duration
	ShutdownTimeout time.Duration

	LogLevel             string
	LogFormat            string
	DecisionLog          string
	DecisionLogDenied    int
	DecisionLogAllowed   int
	DecisionLogPlain     []string
	DecisionLogHashKey   string
	LuaTimeLimit         time.Duration
	SlowlogLogSlowerThan time.Duration
	SlowlogMaxLen        int
	Pprof                bool

	hints [len(hints)]string // empty for the value that Redis starts with
}

// Eviction policies of maxmemory-policy.
const (
	EvictReplenished = "evict-replenished"
	NoEviction       = "noeviction"
)

// Client certificate modes of tls-auth-clients.
const (
	AuthRequired = "yes"
	AuthOptional = "optional"
	AuthNone     = "no"
)

// Durabilities.
const (
	DurabilityAsync = "async"
	DurabilitySync  = "sync"
)

// What a follower does with a command.
const (
	RedirectForward = "forward"
	RedirectMoved   = "moved"
)

// What answers calls of limits without a leader.
const (
	FailureDefault = "default"
	FailureOpen    = "open"
	FailureLocal   = "local"
	FailureClosed  = "closed"
)

// Timeouts between nodes.
const (
	RaftFast = "fast"
	RaftSlow = "slow"
)

// Values of decision-log that are not files.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// defaults returns the configuration without any setting.
func defaults() Config {
	var c Config
	for _, p := range Params {
		if err := p.Value(&c).Set(p.Default); err != nil {
			panic("config: default of " + p.Name + ": " + err.Error())
		}
	}
	return c
}

// ClientMemory is maxmemory-clients in bytes; 0 is no limit.
func (c *Config) ClientMemory() int64 {
	if c.MaxMemoryClients != Auto {
		return c.MaxMemoryClients
	}
	tenth := TotalMemory() / 10
	if c.MaxMemory == 0 {
		return tenth
	}
	return min(tenth, c.MaxMemory)
}

// TLS reports whether the Redis protocol is spoken over TLS.
func (c *Config) TLS() bool { return c.TLSCert != "" }

// HTTPTLS reports whether the HTTP port has TLS files of its own.
func (c *Config) HTTPTLS() bool { return c.HTTPTLSCert != "" || c.HTTPTLSCA != "" }

// HTTPPair are the certificate and the key of those: tls-cert and tls-key, unless there
// are others.
func (c *Config) HTTPPair() (cert, key string) {
	if c.HTTPTLSCert != "" {
		return c.HTTPTLSCert, c.HTTPTLSKey
	}
	return c.TLSCert, c.TLSKey
}

// GRPCTLS reports whether the gRPC port has TLS files of its own.
func (c *Config) GRPCTLS() bool { return c.GRPCTLSCert != "" }

// Replicated reports whether the node keeps a log, alone or in a cluster.
func (c *Config) Replicated() bool { return c.DataDir != "" }

// PeerTLS reports whether the peer port speaks TLS.
func (c *Config) PeerTLS() bool { return c.PeerTLSCert != "" }

// Several reports whether the node is configured to be one of several. The
// others may also join a node that knows nothing of them.
func (c *Config) Several() bool { return len(c.Join) > 0 || c.BootstrapExpect > 1 }

// OwnSecret returns the secret in the node's data directory.
func (c *Config) OwnSecret() string { return filepath.Join(c.DataDir, secret.FileName) }

// findSecret sets PeerSecretFile to OwnSecret if that file exists, or if the node
// makes it: a node on its own does at its first start. At a later start it may
// have become one of several, whatever its configuration says, and a new secret
// would shut it out. With TLS between nodes no secret is needed.
func (c *Config) findSecret() {
	if !c.Replicated() || c.PeerSecretFile != "" || c.PeerTLS() {
		return
	}
	if _, err := os.Lstat(c.OwnSecret()); err == nil || !c.Several() && !c.hasRun() {
		c.PeerSecretFile = c.OwnSecret()
	}
}

// hasRun reports whether the node has been started before.
func (c *Config) hasRun() bool { return raftlog.HasRun(c.DataDir, 0) }

// Guarded reports whether the peer port lets in only nodes and tools that prove
// their membership.
func (c *Config) Guarded() bool { return c.PeerSecretFile != "" || c.PeerTLS() }

// soleNodeID is the default name of a node. It is fixed, and not the host's: a
// container has another host name after each restart.
const soleNodeID = "n1"

// Node returns the name of this node.
func (c *Config) Node() string {
	if c.NodeID == "" {
		return soleNodeID
	}
	return c.NodeID
}

// FailurePolicy returns what answers without a leader: the default follows from
// durability.
func (c *Config) FailurePolicy() string {
	switch {
	case c.OnFailure != FailureDefault:
		return c.OnFailure
	case c.Durability == DurabilityAsync:
		return FailureLocal
	}
	return FailureClosed
}

// PlainListen returns the address for the Redis protocol without TLS, or "". With a
// certificate, listen speaks TLS unless tls-listen names a port of its own.
func (c *Config) PlainListen() string {
	if c.TLS() && c.TLSListen == "" {
		return ""
	}
	return c.Listen
}

// SecureListen returns the address for the Redis protocol over TLS, or "".
func (c *Config) SecureListen() string {
	if !c.TLS() {
		return ""
	}
	if c.TLSListen == "" {
		return c.Listen
	}
	return c.TLSListen
}

// ProtectClients reports whether the server must refuse clients from other
// machines while there is no password. The one exception to protected-mode is a
// configuration that lets them in by certificate only.
func (c *Config) ProtectClients() bool {
	return c.ProtectedMode && !c.certified()
}

// certified reports whether clients of the TLS port must show a certificate.
func (c *Config) certified() bool { return c.TLSCA != "" && c.TLSAuthClients == AuthRequired }

// httpGuarded reports whether every HTTP client must show something: a
// password, a certificate, or the token or name for each right.
func (c *Config) httpGuarded() bool {
	certified := c.certified()
	if c.HTTPTLS() {
		certified = c.HTTPTLSCA != "" && c.HTTPTLSAuthClients == AuthRequired
	}
	read := c.HTTPReadToken != "" || len(c.HTTPReadCerts) > 0
	see := c.HTTPSeeToken != "" || len(c.HTTPSeeCerts) > 0
	return certified || c.RequirePass != "" || read && see
}

// grpcClients are the authority of client certificates of the gRPC port, and whether
// they must be shown.
func (c *Config) grpcClients() (ca, auth string) {
	if c.GRPCTLS() {
		return c.GRPCTLSCA, c.GRPCTLSAuthClients
	}
	return c.TLSCA, c.TLSAuthClients
}

// grpcGuarded reports whether every gRPC client must show a password, a token
// or a certificate.
func (c *Config) grpcGuarded() bool {
	ca, auth := c.grpcClients()
	return ca != "" && auth == AuthRequired || c.RequirePass != "" || c.GRPCReadToken != "" || len(c.GRPCReadCerts) > 0
}

// httpAsksForCertificates reports whether clients can show a certificate over HTTP.
func (c *Config) httpAsksForCertificates() bool {
	if c.HTTPTLS() {
		return c.HTTPTLSCA != "" && c.HTTPTLSAuthClients != AuthNone
	}
	return c.TLSCA != "" && c.TLSAuthClients != AuthNone
}
