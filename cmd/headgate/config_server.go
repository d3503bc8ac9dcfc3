package main

import (
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/server"
)

// serverConfig is the part of c that the Redis front is configured with. node
// is nil without replication.
func serverConfig(c *config.Config, node *cluster.Node) server.Config {
	sc := server.Config{
		Version:           buildVersion(),
		IOThreads:         c.IOThreads,
		Runtime:           runtimeConfig(c),
		WriteTimeout:      orNever(c.WriteTimeout),
		TCPKeepAlive:      orNever(c.TCPKeepalive),
		MaxArgs:           c.MaxArgs,
		MaxBulk:           int(c.ProtoMaxBulkLen),
		QueryBufferLimit:  int(c.ClientQueryBufferLimit),
		OutputBufferSoft:  int(c.ClientOutputBufferSoftLimit),
		OutputBufferLimit: int(c.ClientOutputBufferLimit),
		MaxHeldReplies:    c.MaxHeldReplies,
	}
	if node != nil {
		sc.Replication = node
		sc.Info = &nodeInfo{node}
		sc.ForwardTimeout = c.ForwardTimeout
		sc.HandoverHold = c.HandoverHold
		if c.Redirect == config.RedirectMoved {
			sc.Redirect = server.RedirectMoved
		}
		switch c.FailurePolicy() {
		case config.FailureOpen:
			sc.OnFailure = partition.FailOpen
		case config.FailureLocal:
			sc.OnFailure = partition.FailLocal
		}
	}
	return sc
}

// runtimeConfig is the part of c that the Redis front takes while it runs.
func runtimeConfig(c *config.Config) server.Runtime {
	return server.Runtime{
		RequirePass:      c.RequirePass,
		Protected:        c.ProtectClients(),
		MaxClients:       c.MaxClients,
		ClientMemory:     c.MaxMemoryClients,
		Timeout:          c.Timeout,
		SlowlogThreshold: slowlogThreshold(c.SlowlogLogSlowerThan),
		SlowlogMaxLen:    c.SlowlogMaxLen,
	}
}

// orNever turns the parameters' 0 for "never" into server.Config's -1, where 0
// is the default.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// slowlogThreshold turns the parameter's 0 for "every command", which Redis has
// too, into the shortest duration, where server.Runtime's 0 is the default.
func slowlogThreshold(d time.Duration) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return d
}
