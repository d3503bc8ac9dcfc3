package main

import (
	"log/slog"
	"net"
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

// Other nodes tell clients of Redis Cluster the host of advertise, if it is set, and the
// port of cluster-listen.
func TestClusterConfigHasTheClusterDoor(t *testing.T) {
	require.Empty(t, clusterConfig(&config.Config{PeerListen: "127.0.0.1:7381"}, &listeners{}, reloaders{}, slog.Default(), nil).ClusterAddr)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for advertise, host := range map[string]string{"": "127.0.0.1", "cache.example:7379": "cache.example"} {
		c := config.Config{Advertise: advertise, PeerListen: "127.0.0.1:7381"}
		got := clusterConfig(&c, &listeners{cluster: l}, reloaders{}, slog.Default(), nil)
		require.Equal(t, net.JoinHostPort(host, port), got.ClusterAddr)
	}
}
