package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// sdkRow is a decision that a client makes without the server. Times are in ns.
type sdkRow struct {
	Language string `json:"language"`
	// Of is lease, away or middleware.
	Of   string  `json:"of"`
	Keys int     `json:"keys"`
	P50  float64 `json:"p50"` // of Go: the mean
	P99  float64 `json:"p99"`
}

// sdkScript is how a language other than Go measures itself: each line that it prints is
// a row.
type sdkScript struct {
	language string
	dir      string
	// needs is a file that is there once the package can run, install says how it comes there.
	needs, install string
	before, run    []string
}

var sdkScripts = []sdkScript{
	{"Node", "clients/typescript", "node_modules/.package-lock.json", "clients/compat/run.sh sdk-typescript",
		[]string{"npm", "run", "-s", "build"}, []string{"node", "scripts/bench.mjs", "--json"}},
	{"Python", "clients/python", ".venv/bin/python", "clients/compat/run.sh sdk-python",
		nil, []string{".venv/bin/python", "speed.py", "--json"}},
}

// sdkRows are what each language measures, in the order of the report.
var sdkRows = []sdkRow{{Of: "lease", Keys: 1}, {Of: "lease", Keys: 10_000}, {Of: "away", Keys: 1}, {Of: "away", Keys: 10_000}, {Of: "middleware", Keys: 1}}

// measureSDKs measures our clients. The notes name the languages that are left out.
func (b *bench) measureSDKs(ctx context.Context) (rows []sdkRow, notes []string, err error) {
	if rows, err = b.measureGo(ctx); err != nil {
		return rows, nil, err
	}
	for i := range sdkScripts {
		s := &sdkScripts[i]
		if missing := s.missing(b.root); missing != "" {
			notes = append(notes, missing)
			b.logf("%s", missing)
			continue
		}
		of, err := b.measureScript(ctx, s)
		if err != nil {
			return rows, notes, fmt.Errorf("%s: %w", s.language, err)
		}
		rows = append(rows, of...)
	}
	for _, r := range rows {
		b.logf("%s, %s, %d keys: p50 %.0f ns, p99 %.0f ns", r.Language, r.Of, r.Keys, r.P50, r.P99)
	}
	return rows, notes, nil
}

// measureGo runs the benchmarks of clients/go.
func (b *bench) measureGo(ctx context.Context) (rows []sdkRow, err error) {
	for of, name := range []string{"^BenchmarkLocal$", "^BenchmarkAway$"} {
		measured, err := b.goBenchmark(ctx, "clients/go", runtime.NumCPU(), name, "keys")
		if err != nil {
			return rows, err
		}
		for _, m := range measured {
			rows = append(rows, sdkRow{"Go", []string{"lease", "away"}[of], m.n, m.nanos, m.p99})
		}
	}
	measured, err := b.goBenchmark(ctx, "clients/go/httplimit", runtime.NumCPU(), "^BenchmarkMiddleware$", "limited")
	if err != nil {
		return rows, err
	}
	if len(measured) != 2 {
		return rows, fmt.Errorf("BenchmarkMiddleware has %d results", len(measured))
	}
	bare, limited := measured[0], measured[1]
	return append(rows, sdkRow{"Go", "middleware", 1, limited.nanos - bare.nanos, limited.p99 - bare.p99}), nil
}

// missing returns why a language is left out, or "".
func (s *sdkScript) missing(root string) string {
	if !strings.Contains(s.run[0], "/") {
		if _, err := exec.LookPath(s.run[0]); err != nil {
			return fmt.Sprintf("%s is left out: %s is not installed", s.language, s.run[0])
		}
	}
	if _, err := os.Stat(filepath.Join(root, s.dir, s.needs)); err != nil {
		return fmt.Sprintf("%s is left out: %s of %s is missing (%s)", s.language, s.needs, s.dir, s.install)
	}
	return ""
}

// measureScript runs a script a few times, and returns the medians.
func (b *bench) measureScript(ctx context.Context, s *sdkScript) (rows []sdkRow, err error) {
	command := func(args []string) ([]byte, error) {
		var errs bytes.Buffer
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Stderr = filepath.Join(b.root, s.dir), &errs
		cmd.Env = append(os.Environ(), "HGTEST_BIN="+b.bin.headgate)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, lastLines(errs.String(), 10))
		}
		return out, nil
	}
	if s.before != nil {
		if _, err := command(s.before); err != nil {
			return nil, err
		}
	}
	var all []sdkRow
	for range max(3, b.runs-2) {
		out, err := command(s.run)
		if err != nil {
			return nil, err
		}
		of, err := parseSDK(out)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	for _, want := range sdkRows {
		var runs []sdkRow
		for _, r := range all {
			if r.Of == want.Of && r.Keys == want.Keys {
				runs = append(runs, r)
			}
		}
		if len(runs) == 0 {
			return rows, fmt.Errorf("%s has no row %s of %d keys", strings.Join(s.run, " "), want.Of, want.Keys)
		}
		rows = append(rows, sdkRow{s.language, want.Of, want.Keys,
			median(runs, func(r sdkRow) float64 { return r.P50 }), median(runs, func(r sdkRow) float64 { return r.P99 })})
	}
	return rows, nil
}

// parseSDK reads what a script has printed.
func parseSDK(out []byte) (rows []sdkRow, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var r sdkRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sdkBounds are the floor and the goal of a row in µs.
var sdkBounds = map[string]map[string][2]float64{
	"lease":      {"Go": {1, 0.1}, "Node": {5, 1}, "Python": {10, 5}},
	"away":       {"Go": {1, 1}, "Node": {10, 10}, "Python": {15, 15}},
	"middleware": {"Go": {50, 20}, "Node": {50, 20}, "Python": {50, 20}},
}

var sdkNames = map[string]string{
	"lease": "decision by a lease, %s: p99", "away": "decision while the server is away, %s: p99",
	"middleware": "middleware that decides by a lease, without a network, %s: p99 of its own",
}

func (r *sdkRow) target() target {
	bounds := sdkBounds[r.Of][r.Language]
	keys, middle := "one key", "median"
	if r.Keys != 1 {
		keys = fmt.Sprint(r.Keys, " keys")
	}
	if r.Language == "Go" {
		middle = "mean"
	}
	return target{
		Name: r.Language + ": " + fmt.Sprintf(sdkNames[r.Of], keys), Value: r.P99 / 1000, Unit: " µs",
		Floor: bounds[0], Goal: bounds[1], AtMost: true, Detail: fmt.Sprintf("%s %.2f µs", middle, r.P50/1000)}
}
