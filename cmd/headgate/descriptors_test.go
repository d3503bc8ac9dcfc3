package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// Clients get the descriptors that the node does not need itself, and each of their
// ports gets some.
func TestDescriptorsAreSharedOut(t *testing.T) {
	c := config.Config{MaxClients: 10_000, HTTPMaxClients: 1000, GRPCMaxClients: 1000, HTTPListen: "127.0.0.1:7380"}
	require.Equal(t, c, descriptors(&c, 0))
	require.Equal(t, c, descriptors(&c, 1_000_000))
	own := reserved(&c)
	require.Equal(t, c, descriptors(&c, 11_000+own))
	for _, limit := range []int{20, 64, 256, 400, 1024, 4096, 11_000} {
		for _, dir := range []string{"", "/var/lib/headgate"} {
			for _, grpc := range []string{"", "127.0.0.1:7382"} {
				c := c
				c.DataDir, c.GRPCListen, c.PeerListen = dir, grpc, "127.0.0.1:7381"
				fitted := descriptors(&c, limit)
				clients := fitted.MaxClients + httpClients(&fitted) + grpcClients(&fitted)
				require.LessOrEqual(t, clients, max(limit-reserved(&c), limit/4), limit)
				require.Less(t, fitted.MaxClients, c.MaxClients, limit)
				require.Positive(t, fitted.MaxClients)
				require.Positive(t, fitted.HTTPMaxClients)
				require.Positive(t, fitted.GRPCMaxClients)
			}
		}
	}
	few := config.Config{MaxClients: 50, HTTPMaxClients: 1000, HTTPListen: "127.0.0.1:7380"}
	require.Equal(t, 50, descriptors(&few, 400).MaxClients)

	several := config.Config{DataDir: "/var/lib/headgate", PeerListen: "127.0.0.1:7381", BootstrapExpect: 3}
	one := reserved(&several)
	several.Groups = 12
	require.Equal(t, one+11*groupDescriptors, reserved(&several))
}
