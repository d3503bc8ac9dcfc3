package main

import (
	"log/slog"
	"runtime"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/internal/accept"
)

// # Descriptors
//
// The system limits how many file descriptors a process may open. The node keeps some of
// them for itself: its log, snapshots, certificates, other nodes, and clients whose
// handshakes are not complete. The rest bounds the clients of the ports. So even if the
// ports are full of clients, the node can open its files.

const (
	// ownDescriptors are for files, loops and listeners. A node with a data directory needs
	// soloDescriptors more. For connections between nodes it needs peerDescriptors more,
	// about 50 per other node.
	ownDescriptors  = 48
	soloDescriptors = 32
	peerDescriptors = 256
	// groupDescriptors are for each further group: its files, Raft's connections, and the
	// streams of forwarded commands.
	groupDescriptors = 64
)

// descriptors returns c with fewer clients, so that the node needs at most limit
// descriptors. A limit of 0 means that there is no limit.
func descriptors(c *config.Config, limit int) (fitted config.Config) {
	fitted = *c
	if limit == 0 {
		return fitted
	}
	// Clients get at least a quarter, even if the limit is too small.
	left := max(limit-reserved(c), limit/4)
	if c.MaxClients+httpClients(c)+grpcClients(c) <= left {
		return fitted
	}
	// HTTP and gRPC get at most a quarter each, because a full HTTP or gRPC port closes a
	// connection to make room.
	fitted.HTTPMaxClients = min(c.HTTPMaxClients, max(1, left/4))
	fitted.GRPCMaxClients = min(c.GRPCMaxClients, max(1, left/4))
	fitted.MaxClients = min(c.MaxClients, max(1, left-httpClients(&fitted)-grpcClients(&fitted)))
	return fitted
}

// reserved returns how many descriptors are not available for clients with a complete
// handshake.
func reserved(c *config.Config) int {
	n := ownDescriptors + 4*runtime.GOMAXPROCS(0)
	ports := 0
	for _, secure := range []bool{c.SecureListen() != "", c.ClusterListen != "" && c.ClusterTLS(), c.HTTPListen != "" && (c.TLS() || c.HTTPTLS()), c.GRPCListen != "" && (c.TLS() || c.GRPCTLS())} {
		if secure {
			ports++
		}
	}
	if c.Replicated() {
		n += soloDescriptors
		ports++
		if c.Several() {
			n += peerDescriptors + groupDescriptors*(max(c.Groups, 1)-1)
		}
		if c.PeerTLS() {
			ports++
		}
	}
	return n + ports*accept.Strangers()
}

func httpClients(c *config.Config) int {
	if c.HTTPListen == "" {
		return 0
	}
	return c.HTTPMaxClients
}

func grpcClients(c *config.Config) int {
	if c.GRPCListen == "" {
		return 0
	}
	return c.GRPCMaxClients
}

// warnDescriptors logs a warning if there are fewer descriptors than c needs.
func warnDescriptors(log *slog.Logger, c, fitted *config.Config, limit int) {
	if c.MaxClients != fitted.MaxClients || c.HTTPMaxClients != fitted.HTTPMaxClients || c.GRPCMaxClients != fitted.GRPCMaxClients {
		log.Warn("too few file descriptors for maxclients, so fewer clients are admitted; raise the limit (ulimit -n), or lower maxclients, http-maxclients and grpc-maxclients",
			"limit", limit, "reserved", reserved(c), "maxclients", fitted.MaxClients, "http-maxclients", fitted.HTTPMaxClients, "grpc-maxclients", fitted.GRPCMaxClients)
	}
}
