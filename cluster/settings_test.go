package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
)

// members are nodes n1, n2 … that have told these values of a setting; an empty
// one has told nothing.
func members(name string, values ...string) *raftlog.Status {
	s := new(raftlog.Status)
	for i, v := range values {
		m := raftlog.Member{ID: "n" + string(rune('1'+i)), Up: i > 0, Meta: map[string]string{metaClient: "127.0.0.1:1"}}
		if v != "" {
			m.Meta[metaSetting+name] = v
		}
		s.Members = append(s.Members, m)
	}
	return s
}

func TestDifferences(t *testing.T) {
	f := func(want string, values ...string) {
		t.Helper()
		var got []string
		for _, d := range Differences(members("shards", values...)) {
			got = append(got, d.String())
		}
		require.Equal(t, want, strings.Join(got, "; "))
	}
	f("")
	f("", "256")
	f("", "256", "256", "256")
	f("shards: n1 256, n2 64, n3 256", "256", "64", "256")
	f("shards: n1 256, n3 64", "256", "", "64")
	f("", "256", "", "256")
}

// For a secret, nodes exchange something that shows that two differ, but not
// the secret.
func TestSecretsAreToldAsDigests(t *testing.T) {
	told := func(password, cluster string) string {
		return Setting{Name: "requirepass", Value: password, Secret: true}.told(cluster)
	}
	require.Equal(t, "none", told("", "c"))
	require.Empty(t, told("secret", ""), "nothing to key it by")
	require.Regexp(t, "^digest [0-9a-f]{8}$", told("secret", "c"))
	require.Equal(t, told("secret", "c"), told("secret", "c"))
	require.NotEqual(t, told("secret", "c"), told("Secret", "c"))
	require.NotEqual(t, told("secret", "c"), told("secret", "d"), "of no use elsewhere")
	require.Equal(t, "async", Setting{Name: "durability", Value: "async"}.told(""))
}

func TestDifferencesAreLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	d := make(differing)
	f := func(want string, values ...string) {
		t.Helper()
		out.Reset()
		for range 3 {
			d.check(log, Differences(members("durability", values...)))
		}
		if want == "" {
			require.Empty(t, out.String())
			return
		}
		require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
		require.Contains(t, out.String(), want)
	}
	f("", "sync", "sync")
	f(`level=WARN msg="nodes are configured differently" values="durability: n1 sync, n2 async"`, "sync", "async")
	f(`values="durability: n1 sync, n2 async, n3 sync"`, "sync", "async", "sync")
	f(`level=INFO msg="nodes are configured alike again" parameter=durability`, "sync", "sync", "sync")
	f("", "sync", "sync", "sync")
}
