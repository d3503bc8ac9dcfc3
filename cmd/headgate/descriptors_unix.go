//go:build unix

package main

import (
	"log/slog"
	"syscall"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// reservedDescriptors is what the process opens beside its clients.
const reservedDescriptors = 100

// checkDescriptors warns when the system would refuse connections before
// maxclients does. The runtime has raised the soft limit to the hard one.
func checkDescriptors(log *slog.Logger, c *config.Config) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return // unknown, which is no reason to warn
	}
	need := uint64(c.MaxClients+c.HTTPMaxClients) + reservedDescriptors
	if c.GRPCListen != "" {
		need += uint64(c.GRPCMaxClients)
	}
	if uint64(limit.Cur) < need {
		log.Warn("too few file descriptors for maxclients; raise the limit (ulimit -n)",
			"maxclients", c.MaxClients, "limit", limit.Cur, "needed", need)
	}
}
