package main

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/resp"
)

func TestStreamFillsPlacesIn(t *testing.T) {
	s := newStream(nil, [][]string{{"ZADD", "z:" + streamKey, streamTime, streamTime}, {"ZREMRANGEBYSCORE", "z:" + streamKey, "-inf", streamPast}}, 10, 50)
	got := string(s.append(s.append(nil, &s.commands[0], 7, streamEpoch+123), &s.commands[1], 7, streamEpoch+123))
	want := resp.AppendCommand(nil, []string{"ZADD", "z:000000000007", "500000000123", "500000000123"})
	want = resp.AppendCommand(want, []string{"ZREMRANGEBYSCORE", "z:000000000007", "-inf", "500000000073"})
	require.Equal(t, string(want), got)
}

// Every row's commands do what they say on Redis, and are counted; the scripts
// of libraries are ours there.
func TestDropInRowsOnRedis(t *testing.T) {
	start := func() *process {
		p, err := startRedis(t.TempDir(), "redis")
		require.NoError(t, err)
		t.Cleanup(p.stop)
		return p
	}
	p, other := start(), start()
	for _, spec := range dropinSpecs() {
		if spec.known != "" {
			_, err := spec.prepare(p, other)
			require.ErrorContains(t, err, "NOSCRIPT", spec.name)
			spec.known = ""
		}
		commands, err := spec.prepare(p, other)
		require.NoError(t, err, spec.name)
		c, err := newStream(p, commands[0], spec.keys, spec.past).run(context.Background(), 50*time.Millisecond)
		require.NoError(t, err, spec.name)
		require.Positive(t, c.Rate, spec.name)
	}
	entries, err := p.ask("EVAL", "local n = 0 for _, k in ipairs(redis.call('KEYS', 'zset:*')) do n = n + redis.call('ZCARD', k) end return n", "0")
	require.NoError(t, err)
	require.Positive(t, entries.Int)
	_, err = newStream(p, [][]string{{"NOSUCH"}}, 1, 0).run(context.Background(), time.Minute)
	require.ErrorContains(t, err, "unknown command", "at once")
}

func TestDropInTargets(t *testing.T) {
	of := func(kind string, ours, theirs time.Duration) *dropinRow {
		return &dropinRow{Name: kind, Kind: kind, Headgate: []cost{{1, 1}, {2, ours}, {3, 10 * ours}}, Redis: []cost{{1, theirs}}}
	}
	rep := report{DropIn: &dropinReport{
		Rows: []*dropinRow{of(dropinCommand, 700, 1000), of(dropinScript, 1100, 1000), of(dropinKnown, 110, 1000), of(dropinKnown, 200, 1000)},
		Log:  &logRow{Payload: 128, Changes: 32},
	}}
	var marks []string
	var values []float64
	for _, tg := range rep.targets() {
		marks = append(marks, tg.mark())
		values = append(values, math.Round(100*tg.Value)/100)
	}
	require.Equal(t, []string{"goal", "pass", "pass", "miss", "pass"}, marks)
	require.Equal(t, []float64{0.7, 1.1, 0.11, 0.2, 4}, values)
	require.Contains(t, rep.markdown(), "| interpreted | interpreted | 1.10 | 1.00 | 2 | 1 |")
	row := memoryRow{Label: "x", Keys: 10, Accounted: 570, floor: 64, goal: 56}
	require.Equal(t, "pass", row.targets()[0].mark())
}

func TestShape(t *testing.T) {
	require.Equal(t, "*:$", shape(&resp.Reply{Type: '*', Elems: []resp.Reply{{Type: ':', Int: 1}, {Type: '$', Str: "x"}}}))
}

// Every row is answered alike by Headgate, which knows the scripts that it is
// called by.
func TestDropInRowsOnHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	ours, err := startHeadgate(t.TempDir(), bin)
	require.NoError(t, err)
	t.Cleanup(ours.stop)
	theirs, err := startRedis(t.TempDir(), "redis")
	require.NoError(t, err)
	t.Cleanup(theirs.stop)
	for _, spec := range dropinSpecs() {
		_, err := spec.prepare(ours, theirs)
		require.NoError(t, err, spec.name)
	}
}
