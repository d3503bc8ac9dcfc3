package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The secret that nodes share: the file that is named, or the one in the data
// directory, which a node on its own makes.
func TestWhereTheSecretIs(t *testing.T) {
	with, without, used := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(used, "group-0"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(used, "group-0", "stable"), nil, 0o600))
	own := filepath.Join(with, "peer.secret")
	require.NoError(t, os.WriteFile(own, nil, 0o600))
	several := []string{"--node-id=n", "--join=127.0.0.1:1"}
	tls := []string{"--peer-tls-cert=c", "--peer-tls-key=k", "--peer-tls-ca=a"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"in memory":                 {nil, ""},
		"alone, to be made":         {[]string{"--data-dir", without}, filepath.Join(without, "peer.secret")},
		"alone, made":               {[]string{"--data-dir", with}, own},
		"alone, founding":           {[]string{"--data-dir", with, "--bootstrap-expect=1"}, own},
		"alone, another":            {[]string{"--data-dir", with, "--peer-secret-file=x"}, "x"},
		"alone with TLS":            {append([]string{"--data-dir", with}, tls...), ""},
		"alone, of several":         {[]string{"--data-dir", used}, ""},
		"several":                   {append([]string{"--data-dir", without}, several...), ""},
		"several with a copy":       {append([]string{"--data-dir", with}, several...), own},
		"several with one named":    {append([]string{"--data-dir", with, "--peer-secret-file=x"}, several...), "x"},
		"several with TLS":          {append(append([]string{"--data-dir", with}, several...), tls...), ""},
		"several with both":         {append(append([]string{"--data-dir", with, "--peer-secret-file=x"}, several...), tls...), "x"},
		"several that expect three": {[]string{"--data-dir", without, "--node-id=n", "--join=127.0.0.1:1", "--bootstrap-expect=3"}, ""},
	} {
		l, err := load(t, "", nil, c.args...)
		require.NoError(t, err, name)
		require.Equal(t, c.want, l.PeerSecretFile, name)
		// If the peer port is open to anybody there is no password, from the start or
		// later.
		guarded := c.want != "" || l.PeerTLS()
		for _, password := range []string{"requirepass", "admin-pass"} {
			_, err = load(t, "", nil, append(c.args, "--"+password+"=pw")...)
			later := set(NewStore(l.Config), password, "pw")
			if !l.Replicated() || guarded {
				require.NoError(t, err, name)
				require.NoError(t, later, name)
				continue
			}
			for _, err := range []error{err, later} {
				require.ErrorContains(t, err, password+" needs peer-secret-file or peer-tls-cert", name)
				require.ErrorContains(t, err, "chmod 600 peer.secret", name)
			}
		}
	}
	_, err := load(t, "", nil, "--peer-secret-file=x")
	require.ErrorContains(t, err, "peer-secret-file needs data-dir")
}
