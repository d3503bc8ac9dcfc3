package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/server"
)

func TestRuntimeConfig(t *testing.T) {
	c := config.Config{
		RequirePass: "secret", AdminPass: "other", ProtectedMode: true, MaxClients: 7, Timeout: 3 * time.Second,
		SlowlogLogSlowerThan: -time.Microsecond, SlowlogMaxLen: 5,
	}
	want := server.Runtime{
		RequirePass: "secret", AdminPass: "other", Protected: true, MaxClients: 7, Timeout: 3 * time.Second,
		SlowlogThreshold: -time.Microsecond, SlowlogMaxLen: 5,
	}
	require.Equal(t, want, runtimeConfig(&c))
	c.SlowlogLogSlowerThan, want.SlowlogThreshold = 0, 0
	require.Equal(t, want, runtimeConfig(&c), "every command")
	c.TLSCA, c.TLSAuthClients, want.Protected = "ca.pem", config.AuthRequired, false
	require.Equal(t, want, runtimeConfig(&c), "clients are known by their certificates")
}
