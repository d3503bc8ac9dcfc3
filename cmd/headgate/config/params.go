package config

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
	"github.com/headgate-io/headgate/server/web"
	"github.com/headgate-io/headgate/shard"
)

// Param is one row of the table of parameters.
type Param struct {
	// Name is the parameter's flag, its key in the YAML file and its name in CONFIG GET.
	Name string
	// Section groups parameters in the help text.
	Section string
	// Default is the default value, in the form that a user would write.
	Default string
	// Doc is the help text: one or two sentences.
	Doc string
	// Mutable parameters can be changed by CONFIG SET.
	Mutable bool
	// Secret parameters have values that are never printed.
	Secret bool
	// Alike parameters should have the same value on all nodes of a cluster.
	Alike bool
	// Value returns access to the parameter's field of a Config.
	Value func(*Config) Value
}

// Env returns the parameter's environment variable.
func (p *Param) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))
}

// Sections in the order of the help text.
const (
	network    = "Network"
	security   = "Security"
	limits     = "Limits of clients"
	store      = "Store"
	cluster    = "Durability and cluster"
	operations = "Operations"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Params is the table of parameters, in the order of the help text. It must not be
// modified.
var Params = []Param{
	{
		Name: "listen", Section: network, Default: "127.0.0.1:7379",
		Doc:   "Address of the Redis protocol. It speaks TLS when tls-cert is set and tls-listen is not.",
		Value: func(c *Config) Value { return address{text{&c.Listen}} },
	},
	{
		Name: "http-listen", Section: network, Default: "127.0.0.1:7380",
		Doc:   "Address of HTTP: the console at /, checks under /v1/, /metrics, /healthz, /readyz. It speaks TLS when tls-cert or http-tls-cert is set.",
		Value: func(c *Config) Value { return address{text{&c.HTTPListen}} },
	},
	{
		Name: "grpc-listen", Section: network, Default: "",
		Doc:   "Address of gRPC, for Envoy's rate limit filter; its usual port is 7382. Empty: no gRPC. It speaks TLS when tls-cert or grpc-tls-cert is set.",
		Value: func(c *Config) Value { return address{text{&c.GRPCListen}} },
	},
	{
		Name: "trusted-proxies", Section: network, Default: "127.0.0.0/8,::1/128",
		Doc:   "Networks of gateways whose X-Forwarded-For is believed. For a request from elsewhere, the HTTP port takes the sender as the client.",
		Value: func(c *Config) Value { return networks{&c.TrustedProxies} },
	},
	{
		Name: "unixsocket", Section: network, Default: "",
		Doc:   "Unix socket of the Redis protocol.",
		Value: func(c *Config) Value { return file{text{&c.UnixSocket}} },
	},
	{
		Name: "unixsocketperm", Section: network, Default: "0",
		Doc:   "Permission bits of the unix socket; 0 leaves them to the umask.",
		Value: func(c *Config) Value { return fileMode{&c.UnixSocketPerm} },
	},
	{
		Name: "tcp-keepalive", Section: network, Default: "300",
		Doc:   "Idle time before a TCP keepalive probe, in seconds; 0 sends none.",
		Value: func(c *Config) Value { return duration{&c.TCPKeepalive, time.Second, 0, 24 * time.Hour} },
	},

	{
		Name: "requirepass", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Password of the default user. A flag shows in the process list: prefer the environment or the file.",
		Value: func(c *Config) Value { return password{text{&c.RequirePass}} },
	},
	{
		Name: "admin-pass", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Password of the user admin. If it is set, only admin may change policies and overrides, flush, configure and stop. Otherwise everyone may.",
		Value: func(c *Config) Value { return password{text{&c.AdminPass}} },
	},
	{
		Name: "protected-mode", Section: security, Default: "yes", Mutable: true,
		Doc:   "Refuse to listen beyond the loopback interface without a password or required client certificates.",
		Value: func(c *Config) Value { return yesNo{&c.ProtectedMode} },
	},
	{
		Name: "tls-listen", Section: security, Default: "",
		Doc:   "Separate address of the Redis protocol over TLS; listen stays plain.",
		Value: func(c *Config) Value { return address{text{&c.TLSListen}} },
	},
	{
		Name: "tls-cert", Section: security, Default: "",
		Doc:   "PEM file with the server's certificate chain. It is read again when it changes.",
		Value: func(c *Config) Value { return file{text{&c.TLSCert}} },
	},
	{
		Name: "tls-key", Section: security, Default: "",
		Doc:   "PEM file with the private key of tls-cert.",
		Value: func(c *Config) Value { return file{text{&c.TLSKey}} },
	},
	{
		Name: "tls-ca", Section: security, Default: "",
		Doc:   "PEM file with the authorities that sign client certificates.",
		Value: func(c *Config) Value { return file{text{&c.TLSCA}} },
	},
	{
		Name: "tls-auth-clients", Section: security, Default: AuthRequired,
		Doc: "With tls-ca: whether clients must (yes), may (optional) or need not (no) show a certificate.",
		Value: func(c *Config) Value {
			return enum{&c.TLSAuthClients, []string{AuthRequired, AuthOptional, AuthNone}}
		},
	},
	{
		Name: "http-tls-cert", Section: security, Default: "",
		Doc:   "PEM file with the certificate chain of the HTTP port, in place of tls-cert. It is read again when it changes.",
		Value: func(c *Config) Value { return file{text{&c.HTTPTLSCert}} },
	},
	{
		Name: "http-tls-key", Section: security, Default: "",
		Doc:   "PEM file with the private key of http-tls-cert.",
		Value: func(c *Config) Value { return file{text{&c.HTTPTLSKey}} },
	},
	{
		Name: "http-tls-ca", Section: security, Default: "",
		Doc:   "PEM file with the authorities that sign client certificates of the HTTP port. If this and http-tls-cert are empty, tls-ca and tls-auth-clients apply.",
		Value: func(c *Config) Value { return file{text{&c.HTTPTLSCA}} },
	},
	{
		Name: "http-tls-auth-clients", Section: security, Default: AuthRequired,
		Doc: "With http-tls-ca: whether clients of the HTTP port must (yes), may (optional) or need not (no) show a certificate.",
		Value: func(c *Config) Value {
			return enum{&c.HTTPTLSAuthClients, []string{AuthRequired, AuthOptional, AuthNone}}
		},
	},
	{
		Name: "http-read-token", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Token for checks over HTTP. If this, http-read-certs and requirepass are all empty, everyone may check.",
		Value: func(c *Config) Value { return token{password{text{&c.HTTPReadToken}}} },
	},
	{
		Name: "http-see-token", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Token to read policies, counters and metrics over HTTP. If this, http-see-certs and requirepass are all empty, everyone may read them.",
		Value: func(c *Config) Value { return token{password{text{&c.HTTPSeeToken}}} },
	},
	{
		Name: "http-write-token", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Token to see and to change policies and overrides over HTTP. If no token, certificate name or password is set, they can be changed over the loopback interface only.",
		Value: func(c *Config) Value { return token{password{text{&c.HTTPWriteToken}}} },
	},
	{
		Name: "http-read-certs", Section: security, Default: "", Mutable: true, Alike: true,
		Doc:   "Names in client certificates that allow what http-read-token allows.",
		Value: func(c *Config) Value { return certNames{&c.HTTPReadCerts} },
	},
	{
		Name: "http-see-certs", Section: security, Default: "", Mutable: true, Alike: true,
		Doc:   "Names in client certificates that allow what http-see-token allows.",
		Value: func(c *Config) Value { return certNames{&c.HTTPSeeCerts} },
	},
	{
		Name: "http-write-certs", Section: security, Default: "", Mutable: true, Alike: true,
		Doc:   "Names in client certificates that allow what http-write-token allows.",
		Value: func(c *Config) Value { return certNames{&c.HTTPWriteCerts} },
	},
	{
		Name: "grpc-tls-cert", Section: security, Default: "",
		Doc:   "PEM file with the certificate chain of the gRPC port. With it, no tls-* parameter applies to that port. It is read again when it changes.",
		Value: func(c *Config) Value { return file{text{&c.GRPCTLSCert}} },
	},
	{
		Name: "grpc-tls-key", Section: security, Default: "",
		Doc:   "PEM file with the private key of grpc-tls-cert.",
		Value: func(c *Config) Value { return file{text{&c.GRPCTLSKey}} },
	},
	{
		Name: "grpc-tls-ca", Section: security, Default: "",
		Doc:   "PEM file with the authorities that sign client certificates of the gRPC port.",
		Value: func(c *Config) Value { return file{text{&c.GRPCTLSCA}} },
	},
	{
		Name: "grpc-tls-auth-clients", Section: security, Default: AuthRequired,
		Doc: "With grpc-tls-ca: whether clients of the gRPC port must (yes), may (optional) or need not (no) show a certificate.",
		Value: func(c *Config) Value {
			return enum{&c.GRPCTLSAuthClients, []string{AuthRequired, AuthOptional, AuthNone}}
		},
	},
	{
		Name: "grpc-read-token", Section: security, Default: "", Mutable: true, Secret: true, Alike: true,
		Doc:   "Token for checks over gRPC, which clients send as authorization: Bearer TOKEN. If this, grpc-read-certs and requirepass are all empty, everyone may check.",
		Value: func(c *Config) Value { return token{password{text{&c.GRPCReadToken}}} },
	},
	{
		Name: "grpc-read-certs", Section: security, Default: "", Mutable: true, Alike: true,
		Doc:   "Names in client certificates that allow what grpc-read-token allows.",
		Value: func(c *Config) Value { return certNames{&c.GRPCReadCerts} },
	},
	{
		Name: "audit-log", Section: security, Default: "",
		Doc:   "File that gets a line of JSON for each change of policies, overrides, settings and the cluster, and for each flush. SIGHUP opens it again. Without it the lines go to the log.",
		Value: func(c *Config) Value { return file{text{&c.AuditLog}} },
	},

	{
		Name: "maxclients", Section: limits, Default: "10000", Mutable: true,
		Doc:   "Connections served at a time. A further connection gets an error and is closed.",
		Value: func(c *Config) Value { return integer{&c.MaxClients, 1, 1_000_000} },
	},
	{
		Name: "http-maxclients", Section: limits, Default: strconv.Itoa(web.DefaultMaxClients),
		Doc:   "Connections of HTTP at a time. If there are more, the connection that has been without a request for longest is closed.",
		Value: func(c *Config) Value { return integer{&c.HTTPMaxClients, 16, 1_000_000} },
	},
	{
		Name: "grpc-maxclients", Section: limits, Default: strconv.Itoa(envoy.DefaultMaxClients),
		Doc:   "Connections of gRPC at a time. If there are more, the connection that has been idle for longest is closed.",
		Value: func(c *Config) Value { return integer{&c.GRPCMaxClients, 16, 1_000_000} },
	},
	{
		Name: "timeout", Section: limits, Default: "0", Mutable: true,
		Doc:   "Close a connection that has sent nothing for this long, in seconds; 0 never does.",
		Value: func(c *Config) Value { return duration{&c.Timeout, time.Second, 0, 365 * 24 * time.Hour} },
	},
	{
		Name: "write-timeout", Section: limits, Default: "1m",
		Doc:   "Close a connection that has not read its replies for this long; 0 never does.",
		Value: func(c *Config) Value { return duration{&c.WriteTimeout, time.Second, 0, 24 * time.Hour} },
	},
	{
		Name: "proto-max-bulk-len", Section: limits, Default: formatSize(server.DefaultMaxBulk),
		Doc:   "Length of one argument.",
		Value: func(c *Config) Value { return size{p: &c.ProtoMaxBulkLen, least: 64 * kib, most: 512 * mib} },
	},
	{
		Name: "max-args", Section: limits, Default: strconv.Itoa(server.DefaultMaxArgs),
		Doc:   "Arguments of one command.",
		Value: func(c *Config) Value { return integer{&c.MaxArgs, 64, 1 << 24} },
	},
	{
		Name: "client-query-buffer-limit", Section: limits, Default: formatSize(server.DefaultQueryBufferLimit),
		Doc:   "Input of one connection that waits to run; a connection that sends more is closed.",
		Value: func(c *Config) Value { return size{p: &c.ClientQueryBufferLimit, least: mib, most: gib} },
	},
	{
		Name: "client-output-buffer-soft-limit", Section: limits, Default: formatSize(server.DefaultOutputBufferSoft),
		Doc:   "Size of unread replies at which a connection pauses until its peer has read them.",
		Value: func(c *Config) Value { return size{p: &c.ClientOutputBufferSoftLimit, least: 64 * kib, most: gib} },
	},
	{
		Name: "client-output-buffer-limit", Section: limits, Default: formatSize(server.DefaultOutputBufferLimit),
		Doc:   "Size of unread replies at which a connection is closed.",
		Value: func(c *Config) Value { return size{p: &c.ClientOutputBufferLimit, least: mib, most: 64 * gib} },
	},
	{
		Name: "maxmemory-clients", Section: limits, Default: auto, Mutable: true,
		Doc: "Memory for all clients together: buffers, transactions, running scripts, replies, messages. Above it, the clients that use most are closed. The default is a tenth of the memory, or maxmemory if that is less.",
		Value: func(c *Config) Value {
			return size{p: &c.MaxMemoryClients, share: &c.MaxMemoryClientsShare, least: mib, most: math.MaxInt64, zeroMeans: "no limit", total: TotalMemory,
				auto: c.ClientMemory, autoMeans: "the default"}
		},
	},
	{
		Name: "max-waiting-replies", Section: limits, Default: strconv.Itoa(server.DefaultMaxWaitingReplies),
		Doc:   "Replies of one connection that may wait for a commit before its input waits too.",
		Value: func(c *Config) Value { return integer{&c.MaxWaitingReplies, 1, 1 << 20} },
	},

	{
		Name: "maxmemory", Section: store, Default: "60%", Mutable: true, Alike: true,
		Doc: "Memory for keys and their limits. A share is of the cgroup's or the host's memory.",
		Value: func(c *Config) Value {
			return size{p: &c.MaxMemory, share: &c.MaxMemoryShare, least: mib, most: math.MaxInt64, zeroMeans: "no limit", total: TotalMemory}
		},
	},
	{
		Name: "maxmemory-policy", Section: store, Default: EvictReplenished, Mutable: true,
		Doc: "At maxmemory, drop the keys nearest to full quota, or refuse new keys (noeviction).",
		Value: func(c *Config) Value {
			return enum{&c.MaxMemoryPolicy, []string{EvictReplenished, NoEviction}}
		},
	},
	{
		Name: "shards", Section: store, Default: strconv.Itoa(shard.DefaultShards), Alike: true,
		Doc:   "Parts of the table with a lock each; rounded up to a power of two.",
		Value: func(c *Config) Value { return integer{&c.Shards, 1, 1 << 16} },
	},
	{
		Name: "log-max-entries", Section: store, Default: strconv.Itoa(engine.DefaultLogMaxEntries),
		Doc:   "Timestamps that a key of the log algorithm may hold.",
		Value: func(c *Config) Value { return integer{&c.LogMaxEntries, 1, engine.MaxLogMaxEntries} },
	},
	{
		Name: "lease-share", Section: store, Default: "25", Alike: true,
		Doc:   "Percent of a limit's capacity that may be out as leases.",
		Value: func(c *Config) Value { return integer{&c.LeaseShare, 1, 100} },
	},
	{
		Name: "top-k", Section: store, Default: strconv.Itoa(engine.DefaultTopK),
		Doc:   "Keys that each ranking of RL.TOP follows.",
		Value: func(c *Config) Value { return integer{&c.TopK, 1, engine.MaxTopK} },
	},
	{
		Name: "policies", Section: store, Default: "",
		Doc:   "File of policies that the node loads when it starts and at SIGHUP, if the text is new.",
		Value: func(c *Config) Value { return file{text{&c.Policies}} },
	},

	{
		Name: "data-dir", Section: cluster, Default: "",
		Doc:   "Directory for the log and snapshots; with it the node keeps its limits across restarts. Empty: everything is in memory only.",
		Value: func(c *Config) Value { return directory{text{&c.DataDir}} },
	},
	{
		Name: "node-id", Section: cluster, Default: "",
		Doc:   "Name of this node, for ever. A node that joins others needs one; the default alone is n1.",
		Value: func(c *Config) Value { return name{text{&c.NodeID}} },
	},
	{
		Name: "peer-listen", Section: cluster, Default: "127.0.0.1:7381",
		Doc:   "Address for the other nodes and for headgate cluster, with data-dir.",
		Value: func(c *Config) Value { return address{text{&c.PeerListen}} },
	},
	{
		Name: "peer-advertise", Section: cluster, Default: "",
		Doc:   "Address at which other nodes reach peer-listen, if it differs from that.",
		Value: func(c *Config) Value { return address{text{&c.PeerAdvertise}} },
	},
	{
		Name: "advertise", Section: cluster, Default: "",
		Doc:   "Address at which clients reach this node. Other nodes tell it to their clients, with the port of cluster-listen to those of Redis Cluster. Empty: listen.",
		Value: func(c *Config) Value { return address{text{&c.Advertise}} },
	},
	{
		Name: "cluster-listen", Section: cluster, Default: "",
		Doc:   "Address for clients of Redis Cluster; its usual port is 7383. There a node that does not lead answers MOVED; at listen it forwards. Empty: CLUSTER SLOTS names listen. It speaks TLS if listen does.",
		Value: func(c *Config) Value { return address{text{&c.ClusterListen}} },
	},
	{
		Name: "join", Section: cluster, Default: "",
		Doc:   "Peer addresses of the cluster's nodes, separated by commas; this node's own may be among them.",
		Value: func(c *Config) Value { return addresses{&c.Join} },
	},
	{
		Name: "bootstrap-expect", Section: cluster, Default: "0",
		Doc:   "Nodes that found a new cluster together; 0 founds none, unless join is empty. A node with data ignores it.",
		Value: func(c *Config) Value { return integer{&c.BootstrapExpect, 0, 99} },
	},
	{
		Name: "groups", Section: cluster, Default: "0",
		Doc:   "Raft groups of the cluster, which share its hash slots, so that each node leads some of them. 0 is the number of the cluster to which the data belongs or which the node joins, and 1 for a new cluster. The number never changes.",
		Value: func(c *Config) Value { return integer{&c.Groups, 0, raftlog.MaxGroups} },
	},
	{
		Name: "nonvoter", Section: cluster, Default: "no",
		Doc:   "Follow without a vote until headgate cluster promote gives one.",
		Value: func(c *Config) Value { return yesNo{&c.Nonvoter} },
	},
	{
		Name: "durability", Section: cluster, Default: DurabilityAsync, Alike: true,
		Doc: "Reply at once (async), or after a majority has the effect on disk (sync).",
		Value: func(c *Config) Value {
			return enum{&c.Durability, []string{DurabilityAsync, DurabilitySync}}
		},
	},
	{
		Name: "on-failure", Section: cluster, Default: FailureDefault, Alike: true,
		Doc: "Answers without a leader. open: as if every limit were full, up to backstop, and counters were absent. closed: errors. local: by this node's share of each limit and its copy of counters. Answers of open and local are flagged. The default is local with durability async, closed with sync.",
		Value: func(c *Config) Value {
			return enum{&c.OnFailure, []string{FailureDefault, FailureOpen, FailureClosed, FailureLocal}}
		},
	},
	{
		Name: "backstop", Section: cluster, Default: strconv.Itoa(partition.DefaultBackstop), Alike: true,
		Doc:   "With on-failure open and no leader, a node admits at most this many times each limit, and denies the rest.",
		Value: func(c *Config) Value { return integer{&c.Backstop, 1, policy.MaxBackstop} },
	},
	{
		Name: "max-unacked", Section: cluster, Default: "0",
		Doc:   "If the oldest effect that is not on a majority is this old, the failure policy answers. From half of this age on, replies wait for their commit. 0 is the leader lease.",
		Value: func(c *Config) Value { return duration{&c.MaxUnacked, time.Millisecond, 0, time.Minute} },
	},
	{
		Name: "forward-timeout", Section: cluster, Default: server.DefaultForwardTimeout.String(),
		Doc: "Longest time to reach the leader with a command, and again to wait for its answer; then the failure policy answers. With on-failure open and local, checks wait only as long as the leader usually takes, at least 12 ms.",
		Value: func(c *Config) Value {
			return duration{&c.ForwardTimeout, time.Millisecond, time.Millisecond, time.Minute}
		},
	},
	{
		Name: "handover-wait", Section: cluster, Default: "2s",
		Doc:   "Time that commands wait for the next leader after a leader has announced its stop.",
		Value: func(c *Config) Value { return duration{&c.HandoverWait, time.Millisecond, 0, time.Minute} },
	},
	{
		Name: "raft-profile", Section: cluster, Default: RaftFast,
		Doc: "Timeouts between nodes. fast elects a leader in about 1 s (lease 250 ms). slow takes 2 s (500 ms), for long distances and slow disks.",
		Value: func(c *Config) Value {
			return enum{&c.RaftProfile, []string{RaftFast, RaftSlow}}
		},
	},
	{
		Name: "stall-timeout", Section: cluster, Default: raftlog.DefaultStallTimeout.String(),
		Doc: "Time after which a node stops if a write of its log hangs, and a leader hands over if it commits nothing.",
		Value: func(c *Config) Value {
			return duration{&c.StallTimeout, time.Millisecond, time.Second, 10 * time.Minute}
		},
	},
	{
		Name: "no-fsync", Section: cluster, Default: "no",
		Doc:   "Do not wait for the disk: effects survive a crash of the process, not of the machine. After a power loss wipe data-dir and join again.",
		Value: func(c *Config) Value { return yesNo{&c.NoFsync} },
	},
	{
		Name: "snapshot-log-size", Section: cluster, Default: formatSize(raftlog.DefaultSnapshotBytes),
		Doc:   "Log written before the next snapshot.",
		Value: func(c *Config) Value { return size{p: &c.SnapshotLogSize, least: mib, most: 64 * gib} },
	},
	{
		Name: "snapshot-log-entries", Section: cluster, Default: strconv.Itoa(raftlog.DefaultSnapshotEntries),
		Doc:   "Log entries before the next snapshot; a node checks every two to four minutes.",
		Value: func(c *Config) Value { return integer{&c.SnapshotLogEntries, 128, 1 << 24} },
	},
	{
		Name: "peer-secret-file", Section: cluster, Default: "",
		Doc:   "File with the secret that nodes and headgate cluster share: 16 bytes to 1 KiB, readable by the owner only. A secret in a second line is accepted too. It is read again when it changes. If this and peer-tls-cert are empty, the file is peer.secret in data-dir, which a single node creates.",
		Value: func(c *Config) Value { return file{text{&c.PeerSecretFile}} },
	},
	{
		Name: "peer-tls-cert", Section: cluster, Default: "",
		Doc:   "PEM file with this node's certificate chain, for both ends of connections between nodes. It is read again when it changes.",
		Value: func(c *Config) Value { return file{text{&c.PeerTLSCert}} },
	},
	{
		Name: "peer-tls-key", Section: cluster, Default: "",
		Doc:   "PEM file with the private key of peer-tls-cert.",
		Value: func(c *Config) Value { return file{text{&c.PeerTLSKey}} },
	},
	{
		Name: "peer-tls-ca", Section: cluster, Default: "",
		Doc:   "PEM file with the authorities that sign the nodes' certificates. The holder of any certificate signed by them can act as a node.",
		Value: func(c *Config) Value { return file{text{&c.PeerTLSCA}} },
	},

	{
		Name: "io-threads", Section: operations, Default: strconv.Itoa(server.DefaultIOThreads()),
		Doc:   "Event loops; the default is half of the cores.",
		Value: func(c *Config) Value { return integer{&c.IOThreads, 1, 128} },
	},
	{
		Name: "shutdown-delay", Section: operations, Default: "0", Mutable: true,
		Doc:   "Time for which a stopping node still answers everything, while /readyz and gRPC health report not ready. Make it longer than load balancers take to notice. shutdown-timeout begins after it.",
		Value: func(c *Config) Value { return duration{&c.ShutdownDelay, time.Second, 0, time.Hour} },
	},
	{
		Name: "shutdown-timeout", Section: operations, Default: "5s", Mutable: true,
		Doc:   "Longest time that a stop waits for running commands.",
		Value: func(c *Config) Value { return duration{&c.ShutdownTimeout, time.Second, 0, time.Hour} },
	},
	{
		Name: "log-level", Section: operations, Default: "info", Mutable: true,
		Doc:   "Least severity that is logged.",
		Value: func(c *Config) Value { return enum{&c.LogLevel, []string{"debug", "info", "warn", "error"}} },
	},
	{
		Name: "log-format", Section: operations, Default: FormatText,
		Doc:   "Form of the log lines on standard error.",
		Value: func(c *Config) Value { return enum{&c.LogFormat, []string{FormatText, FormatJSON}} },
	},
	{
		Name: "decision-log", Section: operations, Default: "",
		Doc:   "Target of the decision log, which has a line of JSON for each sampled call: stderr, stdout, or a file, which SIGHUP opens again. Empty: no decision log.",
		Value: func(c *Config) Value { return file{text{&c.DecisionLog}} },
	},
	{
		Name: "decision-log-denied", Section: operations, Default: "100", Mutable: true,
		Doc:   "Lines per second in decision-log for calls that are denied, are errors, or pass although a limit is exceeded; 0 is none.",
		Value: func(c *Config) Value { return integer{&c.DecisionLogDenied, 0, 1_000_000} },
	},
	{
		Name: "decision-log-allowed", Section: operations, Default: "1000", Mutable: true,
		Doc:   "One in this many calls that pass is in decision-log, chosen at random; 1 is all, 0 is none.",
		Value: func(c *Config) Value { return integer{&c.DecisionLogAllowed, 0, 1_000_000_000} },
	},
	{
		Name: "decision-log-plain", Section: operations, Default: "method,host,route",
		Doc:   "Attributes, and keys of descriptors, whose values decision-log shows. * shows all of them, and the keys of limits. Other values are hashed. Secret values are never shown.",
		Value: func(c *Config) Value { return attributeNames{&c.DecisionLogPlain} },
	},
	{
		Name: "decision-log-hash-key", Section: operations, Default: "", Secret: true,
		Doc:   "Key of the hashes in decision-log. With the same key on all nodes, a value has the same hash everywhere. Without a key, the hash changes with each start of a node.",
		Value: func(c *Config) Value { return password{text{&c.DecisionLogHashKey}} },
	},
	{
		Name: "lua-time-limit", Section: operations, Default: "5s", Mutable: true,
		Doc: "Time that a script may take; a longer one ends with an error and changes nothing.",
		Value: func(c *Config) Value {
			return duration{&c.LuaTimeLimit, time.Millisecond, time.Millisecond, time.Minute}
		},
	},
	{
		Name: "slowlog-log-slower-than", Section: operations, Default: "10ms", Mutable: true,
		Doc:   "Commands that take longer go to the SLOWLOG; -1 turns it off.",
		Value: func(c *Config) Value { return duration{&c.SlowlogLogSlowerThan, time.Microsecond, -1000, time.Hour} },
	},
	{
		Name: "slowlog-max-len", Section: operations, Default: "128", Mutable: true,
		Doc:   "Entries that the SLOWLOG keeps.",
		Value: func(c *Config) Value { return integer{&c.SlowlogMaxLen, 1, 1 << 14} },
	},
	{
		Name: "pprof", Section: operations, Default: "no",
		Doc:   "Serve Go's profiles on the HTTP port, under /debug/pprof/.",
		Value: func(c *Config) Value { return yesNo{&c.Pprof} },
	},
	{
		Name: "console", Section: operations, Default: "yes",
		Doc:   "Serve the console on the HTTP port, at /, and the documents below /docs/. They show and explain, and change nothing.",
		Value: func(c *Config) Value { return yesNo{&c.Console} },
	},
}

// names returns the names of all parameters.
func names() (list []string) {
	for i := range Params {
		list = append(list, Params[i].Name)
	}
	return list
}

// find returns the parameter with a name, or nil.
func find(name string) *Param {
	for i := range Params {
		if Params[i].Name == name {
			return &Params[i]
		}
	}
	return nil
}
