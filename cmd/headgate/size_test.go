package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/sizing"
)

func TestSizeCommand(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"size", "--keys", "10M", "--rate", "2M", "--groups", "12"}, &out, &out))
	for _, want := range []string{"\nnodes ", "\ncores of a node ", "\nmemory of a node ", "\ndisk of a node ", "\nnetwork out ", "\nbatches of a group ", "Calculated: "} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "!(", "a wrong verb of fmt")

	out.Reset()
	require.NoError(t, run(t.Context(), []string{"size", "--nodes", "1", "--rate", "300k", "--json"}, &out, &out))
	var e struct {
		Load struct {
			Rate float64 `json:"decisions_per_second"`
		} `json:"load"`
		Cores int `json:"planned_cores"`
		Plan  []struct{ Name, Value, How string }
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &e))
	assert.InDelta(t, 300e3, e.Load.Rate, 0)
	assert.Equal(t, 2, e.Cores)
	assert.NotEmpty(t, e.Plan)

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--keys", "ten"}, "want a number such as 1000, 250k or 10M"},
		{[]string{"--keys", "NaN"}, "want at least 1"},
		{[]string{"--nodes", "2"}, "nodes is 2: want 3 or 5"},
		{[]string{"10M"}, "unknown command"},
	} {
		assert.ErrorContains(t, run(t.Context(), append([]string{"size"}, c.args...), &out, &out), c.want)
	}
}

func TestAmount(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "250k": 250e3, "10M": 10e6, "2.5m": 2.5e6, "1G": 1e9, "1e3": 1000} {
		var a amount
		require.NoError(t, a.Set(text), text)
		assert.InDelta(t, want, float64(a), 0, text)
	}
	a := amount(1e6)
	assert.Equal(t, "1M", a.String())
}

// TestScalingPage compares docs/scaling.md with what the command prints: in blocks that begin
// with the command, in the table whose first column has flags, and in that of keys.
func TestScalingPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/scaling.md")
	require.NoError(t, err)
	ask := func(flags string) string {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), append([]string{"size"}, strings.Fields(flags)...), &out, &out), flags)
		return out.String()
	}
	blocks, rows, keys := 0, 0, 0
	for block := range strings.SplitSeq(string(text), "```") {
		if shown, ok := strings.CutPrefix(block, "console\n$ headgate size "); ok {
			flags, want, _ := strings.Cut(shown, "\n")
			assert.Equal(t, ask(flags), want, flags)
			blocks++
		}
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if flags, ok := strings.CutPrefix(cells[0], "`--"); ok {
			flags = "--" + strings.TrimSuffix(flags, "`")
			var e struct {
				Clusters int
				Load     struct{ Nodes int }
				Plan     []struct{ Name, Value string }
			}
			require.NoError(t, json.Unmarshal([]byte(ask(flags+" --json")), &e))
			plan := map[string]string{}
			for _, l := range e.Plan {
				plan[l.Name] = l.Value
			}
			want := []string{cells[0], fmt.Sprintf("%d x %d", e.Clusters, e.Load.Nodes), plan["cores of a node"], plan["memory of a node"],
				plan["disk writes"], plan["network out"] + ", " + plan["network in"]}
			assert.Equal(t, want, cells)
			rows++
		}
		var name int
		if _, err := fmt.Sscanf(cells[0], "%d bytes", &name); err == nil && len(cells) == 4 {
			var want []string
			for _, algorithm := range []string{"token", "sliding", "log"} {
				want = append(want, fmt.Sprint(sizing.KeyBytes(algorithm, name)))
			}
			assert.Equal(t, want, cells[1:], name)
			keys++
		}
	}
	assert.Positive(t, blocks)
	assert.Positive(t, rows)
	assert.Positive(t, keys)
}
