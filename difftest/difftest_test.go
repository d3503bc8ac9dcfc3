package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/difftest/compare"
	"github.com/headgate-io/headgate/difftest/sequence"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/redisserver"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

func redis(t *testing.T, args ...string) *redisserver.Server {
	t.Helper()
	s, err := startOracle(args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func headgate(t *testing.T) *hgtest.Server {
	t.Helper()
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// fresh is another seed in each run: a failure prints it.
func fresh() uint64 { return uint64(time.Now().UnixNano()) % 1_000_000_000 }

// What the comparison is made of has no difference of its own.
func TestRedisAgreesWithItself(t *testing.T) {
	var out strings.Builder
	err := fuzz(redis(t).Addr, redis(t).Addr, options{length: 2 * time.Second, seed: fresh()}, &out)
	require.NoError(t, err, out.String())
	require.NotContains(t, out.String(), "not compared")
}

// Headgate answers as Redis does.
func TestHeadgateAgreesWithRedis(t *testing.T) {
	var out strings.Builder
	err := fuzz(redis(t).Addr, headgate(t).Addr, options{length: 6 * time.Second, seed: fresh()}, &out)
	require.NoError(t, err, out.String())
}

// What is watched on one connection is changed by others, and by itself.
func TestHeadgateWatchesAsRedis(t *testing.T) {
	var out strings.Builder
	o := options{length: 4 * time.Second, seed: fresh(), groups: []string{"watch", "tx", "strings", "counters", "keys", "connection", "hashes", "sets", "sortedsets", "lists"}}
	require.NoError(t, fuzz(redis(t).Addr, headgate(t).Addr, o, &out), out.String())
}

// A difference that takes three commands in a certain order is found, and shrunk
// to them.
func TestPlantedDifferenceIsFound(t *testing.T) {
	addr := plant(t, redis(t).Addr, func(args []string) []string {
		if n := len(args); strings.EqualFold(args[0], "EXPIRE") && n == 4 && strings.EqualFold(args[3], "NX") {
			return args[:n-1]
		}
		return args
	})
	var out strings.Builder
	o := options{length: time.Minute, sequences: 200, seed: 1, groups: []string{"strings", "counters", "keys"}}
	require.ErrorIs(t, fuzz(redis(t).Addr, addr, o, &out), errDifferent, out.String())
	var steps []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "    ") {
			steps = append(steps, strings.TrimSpace(line))
		}
	}
	require.Contains(t, out.String(), ": EXPIRE\n  oracle:  \":0\\r\\n\"\n  subject: \":1\\r\\n\"\n")
	require.LessOrEqual(t, len(steps), 3, out.String())
	require.GreaterOrEqual(t, len(steps), 2, out.String())
	require.Regexp(t, `(?i)^\d> expire \S+ \d+ nx$`, steps[len(steps)-1])
}

// notCompared are the commands that Headgate has of Redis and that sequences do
// not ask for, with the reason.
var notCompared = map[string][]string{
	"They tell of the server, its configuration or its clients.": {"ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "INFO",
		"LATENCY", "MEMORY", "MONITOR", "OBJECT", "ROLE", "SHUTDOWN", "SLOWLOG", "TIME", "AUTH"},
	"They are about other nodes.":                                  {"WAIT", "ASKING", "READONLY", "READWRITE"},
	"They end the connection, or leave the order of replies open.": {"QUIT", "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE", "PUBLISH", "SPUBLISH", "PUBSUB"},
	"Headgate refuses it.":                                         {"SWAPDB"},
	"There are no functions: the library is empty.":                {"FUNCTION"},
}

// Every command that Headgate has of Redis is compared, or it is said why not.
func TestEveryCommandIsCompared(t *testing.T) {
	pair, err := compare.Connect(redis(t).Addr, headgate(t).Addr)
	require.NoError(t, err)
	t.Cleanup(pair.Close)
	compared := sequence.Commands()
	for _, names := range notCompared {
		compared = append(compared, names...)
	}
	var forgotten []string
	for _, name := range pair.Common() {
		name, _, _ = strings.Cut(name, "|") // a subcommand goes with its container
		if !slices.Contains(compared, name) {
			forgotten = append(forgotten, name)
		}
	}
	require.Empty(t, forgotten)
}

// A sequence asks for every command, and the same seed is the same sequence.
func TestSequences(t *testing.T) {
	asked := map[string]bool{}
	for seed := range uint64(300) {
		steps := sequence.New(seed, 200, sequence.Options{})
		require.Equal(t, steps, sequence.New(seed, 200, sequence.Options{}))
		for i := range steps {
			asked[steps[i].Name()] = true
		}
	}
	for _, name := range sequence.Commands() {
		require.True(t, asked[name], name)
	}
}

// Shrinking keeps what a failure needs and nothing else.
func TestShrink(t *testing.T) {
	steps := sequence.New(3, 300, sequence.Options{})
	has := func(steps []sequence.Step, name string) bool {
		return slices.ContainsFunc(steps, func(s sequence.Step) bool { return s.Name() == name })
	}
	require.True(t, has(steps, "SET") && has(steps, "DEL"))
	short := sequence.Shrink(steps, func(steps []sequence.Step) bool { return has(steps, "SET") && has(steps, "DEL") })
	require.Len(t, short, 2)
	for _, s := range short {
		require.Len(t, s.Args, 1)
		require.False(t, s.Joined)
	}
}
