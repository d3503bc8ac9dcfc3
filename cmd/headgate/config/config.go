package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/secret"
	"github.com/headgate-io/headgate/raftlog"
)

// Config is a complete configuration. The table of parameters ([Params]) documents the
// fields, under the names of their flags.
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
	MaxMemoryShare        int // percent, if maxmemory is a percentage; else 0
	MaxMemoryPolicy       string
	MaxMemoryClients      int64 // bytes or Auto; see ClientMemory
	MaxMemoryClientsShare int   // percent, if maxmemory-clients is a percentage; else 0
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
	Groups             int // 0: see the parameter
	Nonvoter           bool
	Durability         string
	ClusterListen      string
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
	Console              bool

	hints [len(hints)]string // "" means the value that a new Redis has
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

// Who answers calls of limits without a leader.
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

// ClientMemory returns maxmemory-clients in bytes; 0 means no limit.
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

// TLS reports whether clients of the Redis protocol can use TLS.
func (c *Config) TLS() bool { return c.TLSCert != "" }

// HTTPTLS reports whether the HTTP port has its own TLS files.
func (c *Config) HTTPTLS() bool { return c.HTTPTLSCert != "" || c.HTTPTLSCA != "" }

// HTTPPair returns the certificate and the key of the HTTP port: its own, or else tls-cert
// and tls-key.
func (c *Config) HTTPPair() (cert, key string) {
	if c.HTTPTLSCert != "" {
		return c.HTTPTLSCert, c.HTTPTLSKey
	}
	return c.TLSCert, c.TLSKey
}

// GRPCTLS reports whether the gRPC port has its own TLS files.
func (c *Config) GRPCTLS() bool { return c.GRPCTLSCert != "" }

// Replicated reports whether the node keeps a log, alone or in a cluster.
func (c *Config) Replicated() bool { return c.DataDir != "" }

// PeerTLS reports whether connections between nodes use TLS.
func (c *Config) PeerTLS() bool { return c.PeerTLSCert != "" }

// Several reports whether the configuration makes the node one of several. Even if it
// returns false, other nodes may join this node later.
func (c *Config) Several() bool { return len(c.Join) > 0 || c.BootstrapExpect > 1 }

// OwnSecret returns the file name of the secret in the node's data directory.
func (c *Config) OwnSecret() string { return filepath.Join(c.DataDir, secret.FileName) }

// findSecret sets PeerSecretFile to OwnSecret if that file exists, or if the node will make
// it. A node without others makes the secret at its first start only. Before a later start,
// other nodes may have joined it, and a new secret would lock the node out. With TLS
// between nodes, no secret is needed.
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

// Guarded reports whether the peer port admits only nodes and tools that prove their
// membership.
func (c *Config) Guarded() bool { return c.PeerSecretFile != "" || c.PeerTLS() }

// soleNodeID is the default name of a node. It is fixed rather than the host's name,
// because a container gets a new host name at each restart.
const soleNodeID = "n1"

// Node returns the name of this node.
func (c *Config) Node() string {
	if c.NodeID == "" {
		return soleNodeID
	}
	return c.NodeID
}

// FailurePolicy returns who answers without a leader. The default depends on the
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

// PlainListen returns the address for the Redis protocol without TLS, or "". If there is a
// certificate, the address `listen` uses TLS, unless tls-listen is set.
func (c *Config) PlainListen() string {
	if c.TLS() && c.TLSListen == "" {
		return ""
	}
	return c.Listen
}

// ClusterTLS reports whether cluster-listen speaks TLS: if no other port for the Redis
// protocol is plain.
func (c *Config) ClusterTLS() bool { return c.TLS() && c.PlainListen() == "" }

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

// ProtectClients reports whether the server must refuse clients from other machines while
// there is no password. That is so under protected-mode, unless every client must show a
// certificate.
func (c *Config) ProtectClients() bool {
	return c.ProtectedMode && !c.certified()
}

// certified reports whether clients of the TLS port must show a certificate.
func (c *Config) certified() bool { return c.TLSCA != "" && c.TLSAuthClients == AuthRequired }

// httpGuarded reports whether every HTTP client must show credentials: a password, a
// certificate, or for each right a token or a certificate's name.
func (c *Config) httpGuarded() bool {
	certified := c.certified()
	if c.HTTPTLS() {
		certified = c.HTTPTLSCA != "" && c.HTTPTLSAuthClients == AuthRequired
	}
	read := c.HTTPReadToken != "" || len(c.HTTPReadCerts) > 0
	see := c.HTTPSeeToken != "" || len(c.HTTPSeeCerts) > 0
	return certified || c.RequirePass != "" || read && see
}

// grpcClients returns the authority of client certificates at the gRPC port, and whether
// clients must show a certificate.
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

// httpAsksForCertificates reports whether clients can show certificates at the HTTP port.
func (c *Config) httpAsksForCertificates() bool {
	if c.HTTPTLS() {
		return c.HTTPTLSCA != "" && c.HTTPTLSAuthClients != AuthNone
	}
	return c.TLSCA != "" && c.TLSAuthClients != AuthNone
}
