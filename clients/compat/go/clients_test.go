// Package clients_test runs unchanged Go client libraries against real servers.
//
// contract_test.go has what every library must get. Each library fits the small interface
// client with an adapter: goredis_test.go, rueidis_test.go, redigo_test.go. Beside the
// adapter, its own API is tested: transactions, subscriptions, iterators, pools and the
// like.
package clients_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// timeout bounds what a test waits for.
const timeout = 10 * time.Second

var servers *hgtest.Trio

func TestMain(m *testing.M) {
	if recipe := os.Getenv(recipeEnv); recipe != "" {
		runRecipe(strings.Fields(recipe))
		return
	}
	os.Exit(hgtest.Main(m, &servers))
}

// endpoint is where and how to reach a server.
type endpoint struct {
	addr     string
	password string
	tls      *tls.Config
}

// endpoints are the servers of every suite, by name.
func endpoints() map[string]endpoint {
	return map[string]endpoint{
		"plain": {addr: servers.Plain.Addr},
		"auth":  {addr: servers.Auth.Addr, password: hgtest.Password},
		"tls":   {addr: servers.TLS.Addr, tls: &tls.Config{RootCAs: servers.Cert.Pool}},
	}
}

func plain() endpoint { return endpoints()["plain"] }

var keys atomic.Int64

// newKey returns a key that no other test uses. The test's name is left out:
// its slashes and length are of no use on the wire.
func newKey() string { return fmt.Sprintf("clients-go:%d:%d", os.Getpid(), keys.Add(1)) }

// startServer starts a server of this test's own, to be killed.
func startServer(t *testing.T) *hgtest.Server {
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	return s
}

// testReconnect checks that a client that holds connections to a server finds
// it again after the server was killed and restarted, without state.
func testReconnect(t *testing.T, dial func(*testing.T, endpoint) client) {
	s := startServer(t)
	c := dial(t, endpoint{addr: s.Addr})
	key := newKey()
	check := []any{"RL.LIMIT", key, 3, 86400}
	for left := range 3 {
		require.EqualValues(t, 2-left, limitReply(t, c, check...)["remaining"])
	}
	s.Kill()
	_, err := c.do(check...)
	require.Error(t, err, "the server is dead")
	require.NoError(t, s.Restart())
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := c.do("PING")
		require.NoError(t, err)
	}, timeout, 20*time.Millisecond)
	require.EqualValues(t, 2, limitReply(t, c, check...)["remaining"], "the restarted server has no state")
}
