package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/headgate-io/headgate/cmd/headgate/secret"
)

// conflicts returns an error for values that are valid alone but not together.
func (l *Loaded) conflicts() error {
	err := l.Config.conflicts()
	// Without data-dir these parameters have no effect. An operator who changes one of them
	// would believe that it has an effect.
	unasked := defaults()
	for _, name := range needDataDir {
		value := find(name).Value
		if !l.Replicated() && value(&l.Config).String() != value(&unasked).String() {
			err = errors.Join(err, fmt.Errorf("%s needs data-dir: without it nothing is replicated or kept", name))
		}
	}
	// The default of tls-auth-clients does no harm without tls-ca. An operator who sets it
	// would believe that clients are checked.
	for _, tls := range []struct{ name, clients, ca string }{{"tls", l.TLSAuthClients, l.TLSCA}, {"http-tls", l.HTTPTLSAuthClients, l.HTTPTLSCA}, {"grpc-tls", l.GRPCTLSAuthClients, l.GRPCTLSCA}} {
		if _, asked := l.Sources[tls.name+"-auth-clients"]; asked && tls.clients != AuthNone && tls.ca == "" {
			err = errors.Join(err, fmt.Errorf("%s-auth-clients %s needs %s-ca: there is no authority to check client certificates against", tls.name, tls.clients, tls.name))
		}
	}
	return err
}

// needDataDir lists the parameters that have no effect without data-dir.
var needDataDir = []string{"node-id", "peer-listen", "peer-advertise", "advertise", "join", "bootstrap-expect", "groups", "nonvoter", "cluster-listen", "durability", "on-failure", "backstop",
	"max-unacked", "forward-timeout", "handover-wait", "raft-profile", "stall-timeout", "no-fsync", "snapshot-log-size", "snapshot-log-entries",
	"peer-secret-file", "peer-tls-cert", "peer-tls-key", "peer-tls-ca"}

func (c *Config) conflicts() error {
	var errs []error
	report := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if (c.TLSCert == "") != (c.TLSKey == "") {
		report("tls-cert and tls-key need each other: only one is set")
	}
	if c.TLSCert == "" && c.TLSCA != "" {
		report("tls-ca needs tls-cert and tls-key")
	}
	if c.TLSCert == "" && c.TLSListen != "" {
		report("tls-listen needs tls-cert and tls-key")
	}
	c.httpConflicts(report)
	c.grpcConflicts(report)
	if c.Listen == "" && c.TLSListen == "" && c.UnixSocket == "" {
		report("nothing to listen on: listen, tls-listen and unixsocket are all empty")
	}
	if c.UnixSocketPerm != 0 && c.UnixSocket == "" {
		report("unixsocketperm needs unixsocket")
	}
	addresses := []struct{ name, address string }{
		{"listen", c.Listen}, {"tls-listen", c.TLSListen}, {"http-listen", c.HTTPListen}, {"grpc-listen", c.GRPCListen}, {"peer-listen", ""},
	}
	if c.Replicated() {
		addresses[len(addresses)-1].address = c.PeerListen
		addresses = append(addresses, struct{ name, address string }{"cluster-listen", c.ClusterListen})
		c.clusterConflicts(report)
	}
	for i, a := range addresses {
		for _, b := range addresses[:i] {
			if overlap(a.address, b.address) {
				report("%s %s and %s %s are the same port", b.name, b.address, a.name, a.address)
			}
		}
	}
	if c.ClientOutputBufferLimit < c.ClientOutputBufferSoftLimit {
		report("client-output-buffer-limit %s is below client-output-buffer-soft-limit %s", formatSize(c.ClientOutputBufferLimit), formatSize(c.ClientOutputBufferSoftLimit))
	}
	if c.ClientQueryBufferLimit < c.ProtoMaxBulkLen {
		report("client-query-buffer-limit %s is below proto-max-bulk-len %s", formatSize(c.ClientQueryBufferLimit), formatSize(c.ProtoMaxBulkLen))
	}
	if c.AdminPass != "" && c.AdminPass == c.RequirePass {
		report("admin-pass and requirepass are the same, so every client would know the admin password: make them different")
	}
	if c.ProtectedMode && c.RequirePass == "" {
		if a := c.PlainListen(); a != "" && !Loopback(a) {
			report(protected, "listen", a)
		}
		if a := c.SecureListen(); a != "" && !Loopback(a) && !c.certified() {
			report(protected, "the TLS port", a)
		}
		if a := c.ClusterListen; a != "" && !Loopback(a) && !(c.ClusterTLS() && c.certified()) {
			report(protected, "cluster-listen", a)
		}
	}
	if a := c.HTTPListen; c.ProtectedMode && a != "" && !Loopback(a) && !c.httpGuarded() {
		report("%s %s is open to other machines without a password: set requirepass, or http-read-token and http-see-token, or protected-mode no if the network is trusted", "http-listen", a)
	}
	if a := c.GRPCListen; c.ProtectedMode && a != "" && !Loopback(a) && !c.grpcGuarded() {
		report("%s %s is open to other machines without a password: set requirepass, or grpc-read-token, or protected-mode no if the network is trusted", "grpc-listen", a)
	}
	return errors.Join(errs...)
}

// httpConflicts reports the conflicts about the HTTP port's own TLS files.
func (c *Config) httpConflicts(report func(string, ...any)) {
	if (c.HTTPTLSCert == "") != (c.HTTPTLSKey == "") {
		report("http-tls-cert and http-tls-key need each other: only one is set")
	}
	if cert, _ := c.HTTPPair(); cert == "" && c.HTTPTLSCA != "" {
		report("http-tls-ca needs http-tls-cert and http-tls-key, or tls-cert and tls-key")
	}
	if named := len(c.HTTPReadCerts)+len(c.HTTPSeeCerts)+len(c.HTTPWriteCerts) > 0; named && !c.httpAsksForCertificates() {
		report("http-read-certs, http-see-certs and http-write-certs need http-tls-ca or tls-ca: without them no client shows a certificate")
	}
}

// grpcConflicts reports the conflicts about the gRPC port's own TLS files.
func (c *Config) grpcConflicts(report func(string, ...any)) {
	if (c.GRPCTLSCert == "") != (c.GRPCTLSKey == "") {
		report("grpc-tls-cert and grpc-tls-key need each other: only one is set")
	}
	if c.GRPCTLSCert == "" && c.GRPCTLSCA != "" {
		report("grpc-tls-ca needs grpc-tls-cert and grpc-tls-key")
	}
	if ca, auth := c.grpcClients(); len(c.GRPCReadCerts) > 0 && (ca == "" || auth == AuthNone) {
		report("grpc-read-certs needs grpc-tls-ca or tls-ca: without them no client shows a certificate")
	}
}

// clusterConflicts reports the conflicts that matter only with a data-dir.
func (c *Config) clusterConflicts(report func(string, ...any)) {
	if c.PeerListen == "" {
		report("data-dir needs peer-listen, for headgate cluster and for nodes that join")
	}
	if len(c.Join) > 0 && c.NodeID == "" {
		report("join needs node-id: every node of a cluster has a name of its own")
	}
	if c.BootstrapExpect > 1 && len(c.Join) == 0 {
		report("bootstrap-expect %d needs join: the addresses of the other founders", c.BootstrapExpect)
	}
	if c.BootstrapExpect > 0 && c.Nonvoter {
		report("nonvoter and bootstrap-expect %d exclude each other: only voters found a cluster", c.BootstrapExpect)
	}
	if host, _, _ := net.SplitHostPort(c.PeerListen); everywhere(host) && c.PeerAdvertise == "" && c.PeerListen != "" {
		report("peer-listen %s needs peer-advertise: an address at which other nodes reach it", c.PeerListen)
	}
	if host, _ := split(c.PlainListen(), c.SecureListen()); everywhere(host) && c.Advertise == "" && len(c.Join) > 0 && (c.Listen != "" || c.TLSListen != "") {
		report("listen %s needs advertise: an address at which clients of other nodes reach it", c.Listen)
	}
	if host, _, _ := net.SplitHostPort(c.ClusterListen); c.ClusterListen != "" && everywhere(host) && c.Advertise == "" {
		report("cluster-listen %s needs advertise: an address at which clients of other nodes reach it", c.ClusterListen)
	}
	if len(c.Join) > 0 && c.Listen == "" && c.TLSListen == "" && c.Advertise == "" {
		report("join needs listen, tls-listen or advertise: an address for the clients of other nodes")
	}
	if err := CheckPeerTLS(c.PeerTLSCert, c.PeerTLSKey, c.PeerTLSCA); err != nil {
		report("%w", err)
	}
	if c.ProtectedMode && !c.PeerTLS() && c.PeerListen != "" && !Loopback(c.PeerListen) {
		report("peer-listen %s is open to other machines without TLS: set peer-tls-cert, or protected-mode no if the network is trusted", c.PeerListen)
	}
}

// unguarded returns an error if a password is set but connections to the peer port need no
// credentials.
func (c *Config) unguarded() error {
	name := "requirepass"
	switch {
	case !c.Replicated() || c.Guarded() || c.RequirePass == "" && c.AdminPass == "":
		return nil
	case c.RequirePass == "":
		name = "admin-pass"
	}
	when := "when there are several nodes (join, bootstrap-expect)"
	if !c.Several() {
		when = "here: this node was founded together with other nodes, and has no " + secret.FileName
	}
	return errors.New(name + " needs peer-secret-file or peer-tls-cert " + when + ". Otherwise anybody who reaches the peer port gets past the password. " +
		"Make a secret and copy it to every node: head -c 32 /dev/urandom | base64 > peer.secret; chmod 600 peer.secret")
}

const protected = "%s %s is open to other machines without a password: set requirepass, or protected-mode no if the network is trusted"

// overlap reports whether it is impossible to listen on both of two host:port addresses.
func overlap(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB)
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Loopback reports whether only this machine can reach a host:port address. It returns
// false for all names other than localhost, because the address of a name may change.
func Loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
