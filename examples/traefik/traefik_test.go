// Package traefik_test runs Traefik with the example, in front of an application.
package traefik_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/examples/internal/gateway"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// program is where scripts/traefik.sh puts Traefik.
const program = ".bin/traefik"

// start runs Traefik with the example, in which edits are put.
func start(t *testing.T, edits ...string) *gateway.Rig {
	if _, err := os.Stat(program); err != nil {
		t.Skip("Traefik is not here: scripts/traefik.sh builds it, which takes minutes")
	}
	policies, err := os.ReadFile("../caddy/policies.yaml")
	require.NoError(t, err)
	g := gateway.New(t, string(policies))
	g.Silent = true
	g.Configuration("dynamic.yml", edits...)
	path, err := filepath.Abs(program)
	require.NoError(t, err)
	cmd := subprocess.Command(path, "--configFile="+g.Configuration("traefik.yml"))
	cmd.Dir = g.Dir
	g.Run(cmd)
	g.Routed()
	return g
}

func TestTraefik(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.Decides()
	gateway.FourRequests(t, "traefik.md", g.URL)
	g.GoesByRoutes()
	g.DeniesHostileClients()
}

// Nothing passes while Headgate is away; and what an address may ask is bounded before
// Headgate is asked.
func TestTraefikCloses(t *testing.T) {
	t.Parallel()
	g := start(t, "average: 50", "average: 1", "burst: 100", "burst: 30")
	g.Closes(500)
	for n := 0; ; n++ {
		a := g.Ask("127.0.0.8", "GET", "/healthz", "")
		require.Less(t, n, 1000, "none is denied")
		if a.Status == 429 {
			require.Empty(t, a.Header.Get("RateLimit"))
			break
		}
		require.Equal(t, 200, a.Status)
	}
}

// static is what of Traefik's configuration at its start the example uses.
type static struct {
	Global struct {
		CheckNewVersion    bool `yaml:"checkNewVersion"`
		SendAnonymousUsage bool `yaml:"sendAnonymousUsage"`
	} `yaml:"global"`
	EntryPoints map[string]struct {
		Address string `yaml:"address"`
	} `yaml:"entryPoints"`
	Providers struct {
		File struct {
			Filename string `yaml:"filename"`
		} `yaml:"file"`
	} `yaml:"providers"`
}

// dynamic is what of the other file it uses.
type dynamic struct {
	HTTP struct {
		Routers map[string]struct {
			EntryPoints []string `yaml:"entryPoints"`
			Rule        string   `yaml:"rule"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
		} `yaml:"routers"`
		Middlewares map[string]struct {
			RateLimit *struct {
				Average int64  `yaml:"average"`
				Period  string `yaml:"period"`
				Burst   int64  `yaml:"burst"`
			} `yaml:"rateLimit"`
			ForwardAuth *struct {
				Address             string   `yaml:"address"`
				TrustForwardHeader  *bool    `yaml:"trustForwardHeader"`
				AuthRequestHeaders  []string `yaml:"authRequestHeaders"`
				AuthResponseHeaders []string `yaml:"authResponseHeaders"`
			} `yaml:"forwardAuth"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

// Without the program, too: every key is one of Traefik's, as its types spell them, and
// each part names another that is there.
func TestFilesFitTogether(t *testing.T) {
	read := func(name string, into any) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		require.NoError(t, d.Decode(into))
	}
	var s static
	var d dynamic
	read("traefik.yml", &s)
	read(s.Providers.File.Filename, &d)
	for _, router := range d.HTTP.Routers {
		require.Contains(t, d.HTTP.Services, router.Service)
		for _, name := range router.EntryPoints {
			require.Contains(t, s.EntryPoints, name)
		}
		require.Equal(t, []string{"backstop", "headgate"}, router.Middlewares)
	}
	require.NotNil(t, d.HTTP.Middlewares["backstop"].RateLimit)
	auth := d.HTTP.Middlewares["headgate"].ForwardAuth
	require.NotNil(t, auth)
	require.False(t, *auth.TrustForwardHeader)
	require.Equal(t, "http://127.0.0.1:7380/v1/auth/routes:edge", auth.Address)
}
