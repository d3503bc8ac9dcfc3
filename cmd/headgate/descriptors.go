package main

import (
	"log/slog"
	"runtime"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/internal/accept"
)

// # Descriptors
//
// The system lets a process open so many descriptors. The node keeps some for itself:
// its log, snapshots, certificates, other nodes, and clients that are still in their
// handshakes. The rest bounds the clients of the ports: any number of them leaves the
// node its own files.

const (
	// ownDescriptors are for files, loops and listeners. A data directory takes
	// soloDescriptors more. Connections between nodes take peerDescriptors more: some
	// 50 for each other node.
	ownDescriptors  = 48
	soloDescriptors = 32
	peerDescriptors = 256
)

// descriptors bounds the clients of c, if the process may have limit
// descriptors; 0 is no limit.
func descriptors(c *config.Config, limit int) (fitted config.Config) {
	fitted = *c
	if limit == 0 {
		return fitted
	}
	// At least a quarter is for clients, even if the limit is too small for
	// anything.
	left := max(limit-reserved(c), limit/4)
	if c.MaxClients+httpClients(c)+grpcClients(c) <= left {
		return fitted
	}
	// HTTP and gRPC get a quarter each at most: when full, they close a connection
	// to make room.
	fitted.HTTPMaxClients = min(c.HTTPMaxClients, max(1, left/4))
	fitted.GRPCMaxClients = min(c.GRPCMaxClients, max(1, left/4))
	fitted.MaxClients = min(c.MaxClients, max(1, left-httpClients(&fitted)-grpcClients(&fitted)))
	return fitted
}

// reserved returns how many descriptors are not for clients that have completed
// their handshake.
func reserved(c *config.Config) int {
	n := ownDescriptors + 4*runtime.GOMAXPROCS(0)
	ports := 0
	for _, secure := range []bool{c.SecureListen() != "", c.HTTPListen != "" && (c.TLS() || c.HTTPTLS()), c.GRPCListen != "" && (c.TLS() || c.GRPCTLS())} {
		if secure {
			ports++
		}
	}
	if c.Replicated() {
		n += soloDescriptors
		ports++
		if c.Several() {
			n += peerDescriptors
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

// warnDescriptors warns when there are fewer descriptors than c means to use.
func warnDescriptors(log *slog.Logger, c, fitted *config.Config, limit int) {
	if c.MaxClients != fitted.MaxClients || c.HTTPMaxClients != fitted.HTTPMaxClients || c.GRPCMaxClients != fitted.GRPCMaxClients {
		log.Warn("too few file descriptors for all clients, fewer are admitted; raise the limit (ulimit -n), or lower maxclients, http-maxclients and grpc-maxclients",
			"limit", limit, "reserved", reserved(c), "maxclients", fitted.MaxClients, "http-maxclients", fitted.HTTPMaxClients, "grpc-maxclients", fitted.GRPCMaxClients)
	}
}
