package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clients is the number of connections of every load.
const clients = 50

// sample is one run of one load against one peer.
type sample struct {
	Rate float64 `json:"per_second"`
	// CPU is the server's processor time per command, all threads.
	CPU time.Duration `json:"server_cpu_ns"`
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// redisBenchmark sends n commands to p through redis-benchmark. The first error
// reply ends it, unless the flag -e, which counts an error as a reply, is among
// extra.
func redisBenchmark(ctx context.Context, p *process, n, pipeline, keys int, command []string, extra ...string) (sample, error) {
	_, port, _ := strings.Cut(p.addr, ":")
	args := []string{"-h", "127.0.0.1", "-p", port, "-c", strconv.Itoa(clients), "-n", strconv.Itoa(n),
		"-P", strconv.Itoa(pipeline), "-r", strconv.Itoa(keys), "--csv"}
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, "redis-benchmark", slices.Concat(args, extra, command)...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, lastLines(string(exit.Stderr)+string(out), 2))
		}
		return sample{}, fmt.Errorf("redis-benchmark against %s: %w", p.name, err)
	}
	after, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	s, err := parseCSV(string(out))
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark against %s: %w", p.name, err)
	}
	s.CPU = (after - before) / time.Duration(n)
	return s, nil
}

// parseCSV reads the last line of redis-benchmark's --csv output: "test","rps",
// "avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",
// "p99_latency_ms","max_latency_ms".
func parseCSV(out string) (sample, error) {
	record, err := csv.NewReader(strings.NewReader(lastLines(out, 1))).Read()
	if err != nil || len(record) < 8 {
		return sample{}, fmt.Errorf("unexpected output %q", lastLines(out, 2))
	}
	var failed error
	number := func(i int) float64 {
		v, err := strconv.ParseFloat(record[i], 64)
		failed = errors.Join(failed, err)
		return v
	}
	s := sample{
		Rate: number(1),
		P50:  time.Duration(number(4) * float64(time.Millisecond)),
		P99:  time.Duration(number(6) * float64(time.Millisecond)),
	}
	return s, failed
}
