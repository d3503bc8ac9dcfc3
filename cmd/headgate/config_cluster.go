package main

import (
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/raftlog"
)

// clusterConfig returns the node's part of c. The node calls fatal with the reason if it
// cannot continue.
func clusterConfig(c *config.Config, ports *listeners, files reloaders, log *slog.Logger, fatal func(error)) cluster.Config {
	client := c.Advertise
	if client == "" {
		switch {
		case ports.plain != nil:
			client = ports.plain.Addr().String()
		case ports.secure != nil:
			client = ports.secure.Addr().String()
		}
	}
	return cluster.Config{
		NodeID:          c.Node(),
		DataDir:         c.DataDir,
		Listener:        ports.peers,
		Dial:            cluster.Dialer(clientTLS(files.peers)),
		Secrets:         files.secrets(),
		ClientAddr:      client,
		ClusterAddr:     clusterAddr(c, ports.cluster),
		Fatal:           fatal,
		Logger:          log,
		PeerAddr:        peerAddr(c, ports.peers),
		Join:            c.Join,
		BootstrapExpect: c.BootstrapExpect,
		Nonvoter:        c.Nonvoter,
		Settings:        alike(c),
		Durable:         c.Durability == config.DurabilitySync,
		MaxUnacked:      c.MaxUnacked,
		HandoverWait:    c.HandoverWait,
		Timeouts:        timeouts(c),
		StallTimeout:    c.StallTimeout,
		NoSync:          c.NoFsync,
		SnapshotEntries: uint64(c.SnapshotLogEntries),
		SnapshotBytes:   c.SnapshotLogSize,
	}
}

// clusterAddr returns the address for clients of Redis Cluster: that of l, or the host of
// advertise with l's port; "" if l is nil.
func clusterAddr(c *config.Config, l net.Listener) string {
	if l == nil {
		return ""
	}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	if c.Advertise != "" {
		host, _, _ = net.SplitHostPort(c.Advertise)
	}
	return net.JoinHostPort(host, port)
}

// alike returns the parameters that all nodes should have in common.
func alike(c *config.Config) []cluster.Setting {
	var list []cluster.Setting
	for _, s := range c.Alike() {
		list = append(list, cluster.Setting(s))
	}
	return list
}

// peerAddr returns the address at which other nodes reach l. That is peer-listen unchanged,
// because a name stays valid longer than an address. If the system has chosen the port, it
// is l's address.
func peerAddr(c *config.Config, l net.Listener) string {
	if c.PeerAdvertise != "" {
		return c.PeerAdvertise
	}
	if _, port, _ := net.SplitHostPort(c.PeerListen); port == "0" {
		return l.Addr().String()
	}
	return c.PeerListen
}

// clientTLS returns the TLS configuration with which a node connects to others; nil without
// TLS.
func clientTLS(peers *certs.Reloader) func() *tls.Config {
	if peers == nil {
		return nil
	}
	return peers.Client
}

func timeouts(c *config.Config) raftlog.Timeouts {
	if c.RaftProfile == config.RaftSlow {
		return raftlog.Slow
	}
	return raftlog.Fast
}
