package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

func TestClusterConfigHasTheStallTimeout(t *testing.T) {
	c := config.Config{NodeID: "n1", PeerListen: "127.0.0.1:7381", StallTimeout: 3 * time.Second}
	got := clusterConfig(&c, &listeners{}, reloaders{}, slog.Default(), nil)
	require.Equal(t, 3*time.Second, got.StallTimeout)
}
