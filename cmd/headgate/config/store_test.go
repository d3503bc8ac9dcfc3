package config

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGetAnswersInRedisUnits(t *testing.T) {
	c := defaults()
	require.NoError(t, find("maxmemory").Value(&c).Set("64mb"))
	s := NewStore(c)
	for name, want := range map[string]string{
		"maxmemory": "67108864", "maxclients": "10000", "timeout": "0", "tcp-keepalive": "300",
		"slowlog-log-slower-than": "10000", "proto-max-bulk-len": "16777216",
		"save": "", "appendonly": "no", "databases": "16", "port": "7379", "bind": "127.0.0.1", "tls-port": "0",
		"requirepass": "", "protected-mode": "yes", "loglevel": "notice",
	} {
		got, ok := s.Get(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	_, ok := s.Get("nothing")
	require.False(t, ok)
}

func TestEveryNameIsAnswered(t *testing.T) {
	s := NewStore(defaults())
	former := len(hints) - 2 // those with a name before Redis 7
	require.Len(t, s.Names(), len(Params)+len(aliases)+len(hints)+former)
	for _, name := range s.Names() {
		value, ok := s.Get(name)
		require.True(t, ok, name)
		require.NoError(t, set(s, name, value), "%s: set to what it is", name)
	}
}

// How Redis stores values may be set to any number, by either name.
func TestHints(t *testing.T) {
	s := NewStore(defaults())
	get := func(name string) string {
		value, ok := s.Get(name)
		require.True(t, ok, name)
		return value
	}
	require.Equal(t, "128", get("zset-max-listpack-entries"))
	require.NoError(t, set(s, "zset-max-ziplist-entries", "0"))
	require.Equal(t, "0", get("zset-max-listpack-entries"))
	require.Equal(t, "0", get("zset-max-ziplist-entries"))
	require.Equal(t, "64", get("zset-max-listpack-value"), "no other has changed")
	require.EqualError(t, set(s, "list-max-listpack-size", "many"), "argument couldn't be parsed into an integer")
	_, err := s.Set([][2]string{{"list-compress-depth", "1"}, {"nope", "1"}})
	require.EqualError(t, err, "unknown parameter")
	require.Equal(t, "0", get("list-compress-depth"), "all or none")
	require.EqualError(t, set(s, "", "1"), "unknown parameter")
}

func TestClusterEnabled(t *testing.T) {
	f := func(dataDir, listen, want string) {
		t.Helper()
		c := defaults()
		c.DataDir, c.ClusterListen = dataDir, listen
		got, _ := NewStore(c).Get("cluster-enabled")
		require.Equal(t, want, got)
	}
	f("", "127.0.0.1:7383", "no")
	f("/data", "", "no")
	f("/data", "127.0.0.1:7383", "yes")
}

func TestPortsOfATLSServer(t *testing.T) {
	ports := func(c Config) [2]string {
		s := NewStore(c)
		plain, _ := s.Get("port")
		secure, _ := s.Get("tls-port")
		return [2]string{plain, secure}
	}
	c := defaults()
	c.TLSCert, c.TLSKey = "c", "k"
	require.Equal(t, [2]string{"0", "7379"}, ports(c))
	c.TLSListen = "127.0.0.1:7378"
	require.Equal(t, [2]string{"7379", "7378"}, ports(c))
}

// set sets one parameter.
func set(s *Store, name, value string) error {
	_, err := s.Set([][2]string{{name, value}})
	return err
}

func TestSet(t *testing.T) {
	s := NewStore(defaults())
	var told []int64
	s.OnChange(func(c *Config) { told = append(told, c.MaxMemory) })
	require.NoError(t, set(s, "maxmemory", "64mb"))
	require.NoError(t, set(s, "maxmemory", "65536kb"))
	require.NoError(t, set(s, "maxmemory", "0"))
	require.Equal(t, []int64{64 * mib, 0}, told, "told of changes only")

	for _, c := range []struct{ name, value, want string }{
		{"nope", "1", "unknown parameter"},
		{"shards", "8", "can't set immutable config"},
		{"port", "8", "can't set immutable config"},
		{"save", "60 1", "can't set immutable config"},
		{"maxclients", "x", "argument couldn't be parsed into an integer"},
		{"maxclients", "0", "argument must be between 1 and 1000000 inclusive"},
		{"maxmemory", "much", "argument must be a memory value"},
		{"protected-mode", "perhaps", "argument must be 'yes' or 'no'"},
		{"maxmemory-policy", "allkeys-lru", "argument(s) must be one of the following: evict-replenished, noeviction"},
	} {
		require.EqualError(t, set(s, c.name, c.value), c.want, c.name)
	}
	require.Len(t, told, 2)
}

func TestSetIsAllOrNothing(t *testing.T) {
	s := NewStore(defaults())
	var told []Config
	s.OnChange(func(c *Config) { told = append(told, *c) })
	for _, c := range []struct {
		pairs  [][2]string
		failed int
		want   string
	}{
		{[][2]string{{"timeout", "3"}, {"maxclients", "x"}}, 1, "argument couldn't be parsed into an integer"},
		{[][2]string{{"timeout", "3"}, {"nope", "1"}, {"maxclients", "x"}}, 1, "unknown parameter"},
		{[][2]string{{"timeout", "3"}, {"maxclients", "5"}, {"shards", "8"}}, 2, "can't set immutable config"},
		{[][2]string{{"timeout", "3"}, {"save", ""}, {"timeout", "4"}}, 2, "duplicate parameter"},
	} {
		failed, err := s.Set(c.pairs)
		require.EqualError(t, err, c.want)
		require.Equal(t, c.failed, failed, c.want)
	}
	require.Equal(t, defaults(), *s.Current())
	require.Empty(t, told)

	_, err := s.Set([][2]string{{"timeout", "3"}, {"save", ""}, {"maxclients", "5"}})
	require.NoError(t, err)
	want := defaults()
	want.Timeout, want.MaxClients = 3*time.Second, 5
	require.Equal(t, want, *s.Current())
	require.Equal(t, []Config{want}, told, "told once")
}

// CONFIG GET cuts durations to whole units.
func TestSetOfPartsOfAUnit(t *testing.T) {
	c := defaults()
	c.TCPKeepalive = 1500 * time.Millisecond
	s := NewStore(c)
	require.NoError(t, set(s, "shutdown-timeout", "5500ms"))
	_, err := s.Set([][2]string{{"tcp-keepalive", "1"}, {"timeout", "500ms"}})
	require.NoError(t, err)
	c.ShutdownTimeout, c.Timeout = 5500*time.Millisecond, 500*time.Millisecond
	require.Equal(t, c, *s.Current())
}

func TestSetCannotOpenTheServer(t *testing.T) {
	c := defaults()
	c.Listen, c.RequirePass = ":7379", "secret"
	s := NewStore(c)
	require.ErrorContains(t, set(s, "requirepass", ""), "open to other machines")
	failed, err := s.Set([][2]string{{"timeout", "3"}, {"requirepass", ""}, {"save", ""}})
	require.ErrorContains(t, err, "open to other machines")
	require.Equal(t, 1, failed)
	require.Equal(t, c, *s.Current())
	// The configuration after all changes counts.
	_, err = s.Set([][2]string{{"requirepass", ""}, {"protected-mode", "no"}})
	require.NoError(t, err)
	require.ErrorContains(t, set(s, "protected-mode", "yes"), "open to other machines")
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := NewStore(defaults())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 200 {
				_ = set(s, "maxclients", []string{"5", "6"}[i%2])
				_, _ = s.Get("maxclients")
			}
		})
	}
	wg.Wait()
	require.Contains(t, []int{5, 6}, s.Current().MaxClients)
}

// maxmemory-clients follows maxmemory where that is less than a tenth of the
// machine, unless it is set.
func TestClientMemoryFollowsMaxmemory(t *testing.T) {
	s := NewStore(defaults())
	var most int64
	s.OnChange(func(c *Config) { most = c.ClientMemory() })
	tenth := TotalMemory() / 10
	value := func() string { v, _ := s.Get("maxmemory-clients"); return v }
	for _, step := range []struct {
		name, value string
		want        int64
	}{
		{"maxmemory", "16mb", 16 * mib},
		{"maxmemory", "0", tenth},
		{"maxmemory", "100%", tenth},
		{"maxmemory", "17mb", 17 * mib},
		{"maxmemory-clients", "3gb", 3 * gib},
		{"maxmemory", "16mb", 3 * gib},
		{"maxmemory-clients", "AUTO", 16 * mib},
		{"maxmemory-clients", "0", 0},
	} {
		require.NoError(t, set(s, step.name, step.value))
		require.Equal(t, step.want, most, step)
		require.Equal(t, strconv.FormatInt(step.want, 10), value(), step)
	}
	c := defaults()
	require.Equal(t, "auto", find("maxmemory-clients").Value(&c).String())
	require.Error(t, set(s, "maxmemory", "auto"))
}
