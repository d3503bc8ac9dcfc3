package hiredis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// TestBenchmark runs redis-benchmark as users do first: it checks that the
// program gets through, and says nothing of speed.
func TestBenchmark(t *testing.T) {
	check := []string{"CL.THROTTLE", "bench:__rand_int__", "15", "30", "60"}
	tls := []string{"--tls", "--cacert", servers.Cert.CAFile}
	for _, b := range []struct {
		name   string
		server *hgtest.Server
		args   []string
	}{
		{"all of its own tests", servers.Plain, nil},
		{"pipeline", servers.Plain, append([]string{"-P", "16", "-r", "1000"}, check...)},
		{"threads", servers.Plain, append([]string{"--threads", "2", "-r", "1000"}, check...)},
		{"resp3", servers.Plain, append([]string{"-3", "-r", "1000"}, check...)},
		{"hot key", servers.Plain, []string{"-P", "16", "RL.LIMIT", "bench:hot", "100", "1s"}},
		{"password", servers.Auth, append([]string{"-a", hgtest.Password, "-r", "1000"}, check...)},
		{"tls", servers.TLS, append(append(tls, "-r", "1000"), check...)},
	} {
		t.Run(b.name, func(t *testing.T) {
			args := append([]string{"redis-benchmark", "-q", "-n", "10000", "-c", "50"}, b.args...)
			p := program{args: against(b.server, args...)}
			out, err := p.output(t)
			require.NoError(t, err, out)
			require.Contains(t, out, "requests per second")
			require.NotContains(t, out, "WARNING")
			require.NotContains(t, out, "Error")
			if b.args == nil {
				for _, test := range []string{"PING_INLINE", "SET", "INCR", "LRANGE_600", "ZPOPMIN", "MSET (10 keys)"} {
					require.Contains(t, out, test)
				}
			}
		})
	}
}
