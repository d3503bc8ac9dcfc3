package config

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// get asks for one name and fails if it is not answered.
func get(t *testing.T, s *Store, name string) string {
	t.Helper()
	pairs := s.Get(name)
	require.Len(t, pairs, 2, name)
	require.Equal(t, name, pairs[0])
	return pairs[1]
}

func TestGetAnswersInRedisUnits(t *testing.T) {
	c := defaults()
	require.NoError(t, find("maxmemory").Value(&c).Set("64mb"))
	s := NewStore(c)
	for name, want := range map[string]string{
		"maxmemory": "67108864", "maxclients": "10000", "timeout": "0", "tcp-keepalive": "300",
		"slowlog-log-slower-than": "10000", "latency-monitor-threshold": "0", "proto-max-bulk-len": "1048576",
		"save": "", "appendonly": "no", "databases": "1", "port": "7379", "bind": "127.0.0.1", "tls-port": "0",
		"requirepass": "", "protected-mode": "yes", "loglevel": "notice",
	} {
		require.Equal(t, want, get(t, s, name), name)
	}
}

func TestGetMatchesGlobs(t *testing.T) {
	s := NewStore(defaults())
	require.Equal(t, []string{"maxmemory", "maxmemory-policy"}, names(s.Get("MAXMEM*")))
	require.Equal(t, []string{"maxmemory", "port", "save"}, names(s.Get("save", "maxmemor?", "p[no]rt")))
	require.Len(t, s.Get("*"), 2*(len(Params)+len(aliases)))
	require.Empty(t, s.Get("nothing"))
	require.Empty(t, s.Get("[malformed"))
	require.Empty(t, s.Get())
}

func names(pairs []string) (names []string) {
	for i := 0; i < len(pairs); i += 2 {
		names = append(names, pairs[i])
	}
	return names
}

func TestSetIsAllOrNothing(t *testing.T) {
	s := NewStore(defaults())
	var told []int
	s.OnChange(func(c *Config) { told = append(told, c.MaxClients) })
	require.NoError(t, s.Set("MaxClients", "5", "slowlog-max-len", "7"))
	require.Equal(t, 5, s.Current().MaxClients)
	require.Equal(t, 7, s.Current().SlowlogMaxLen)
	require.Error(t, s.Set("maxclients", "6", "slowlog-max-len", "x"))
	require.Equal(t, 5, s.Current().MaxClients)
	require.Equal(t, []int{5}, told)
}

func TestSetErrorsAreRediss(t *testing.T) {
	cases := []struct {
		pairs []string
		want  string
	}{
		{[]string{"nope", "1"}, "Unknown option or number of arguments for CONFIG SET - 'nope'"},
		{[]string{"shards", "8"}, "CONFIG SET failed (possibly related to argument 'shards') - can't set immutable config"},
		{[]string{"port", "8"}, "CONFIG SET failed (possibly related to argument 'port') - can't set immutable config"},
		{[]string{"save", "60 1"}, "CONFIG SET failed (possibly related to argument 'save') - can't set immutable config"},
		{[]string{"maxclients", "x"}, "CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer"},
		{[]string{"maxclients", "0"}, "CONFIG SET failed (possibly related to argument 'maxclients') - argument must be between 1 and 1000000 inclusive"},
		{[]string{"maxmemory", "much"}, "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value"},
		{[]string{"maxclients", "1", "MAXCLIENTS", "2"}, "CONFIG SET failed (possibly related to argument 'maxclients') - duplicate parameter"},
		{[]string{"maxmemory-policy", "allkeys-lru"}, "CONFIG SET failed (possibly related to argument 'maxmemory-policy') - argument(s) must be one of the following: evict-replenished, noeviction"},
	}
	for _, c := range cases {
		require.EqualError(t, NewStore(defaults()).Set(c.pairs...), c.want)
	}
}

// Tools that switch persistence off do so whether it is on or not.
func TestSetToWhatItIs(t *testing.T) {
	require.NoError(t, NewStore(defaults()).Set("save", "", "appendonly", "no", "shards", "256"))
}

func TestSetCannotOpenTheServer(t *testing.T) {
	c := defaults()
	c.Listen, c.RequirePass = ":7379", "secret"
	s := NewStore(c)
	require.ErrorContains(t, s.Set("requirepass", ""), "open to other machines")
	require.Equal(t, "secret", s.Current().RequirePass)
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := NewStore(defaults())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_ = s.Set("maxclients", "5", "slowlog-max-len", "5")
				_ = s.Get("*")
				_ = s.Current().MaxClients
			}
		})
	}
	wg.Wait()
	require.Equal(t, 5, s.Current().MaxClients)
}
