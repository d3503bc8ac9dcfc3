package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// floodRow is what a flood of leases costs a server and its other callers.
type floodRow struct {
	Name string `json:"name"`
	// Flood is nil for the row without one, Others are calls on other keys meanwhile.
	Flood  *load.Result `json:"flood,omitempty"`
	Others *load.Result `json:"others"`
	// Leases are how many the server knows at the end. Used is by how much its accounted
	// memory has grown, Resident is that of the process, in bytes.
	Leases   float64 `json:"leases"`
	Used     int64   `json:"used_bytes"`
	Resident int64   `json:"resident_bytes"`
}

const (
	// floodRate is the rate of a flood: a part of what two cores can answer, so that others
	// wait for leases and not for a processor.
	floodRate = 20_000
	// floodPart of the keys flood: a shorter run says as much.
	floodPart = 4
	// floodWant is the most that can be asked for.
	floodWant = "4611686018427387904"
)

// measureFloods measures one flood after the other, on a server of its own each.
func (b *bench) measureFloods(ctx context.Context, dir string) (rows []*floodRow, err error) {
	flood := func(keys int, rate float64, command ...string) *load.Config {
		return &load.Config{Clients: 20, Pipeline: 1, Keys: uint64(keys), Sequential: true, Rate: rate, Command: command, Duration: time.Duration(float64(keys) / rate * float64(time.Second))}
	}
	lease := func(keys int, rate float64, key, id, seq string) *load.Config {
		c := flood(keys, rate, "RL.LEASE", key, "1000000", "1", "ID", id, "SEQ", seq, "WANT", floodWant, "HELD", floodWant, "NEED", "0", "TTL", "60s")
		if seq != "1" {
			c.Clients = 1 // they come in order
		}
		return c
	}
	const each = load.Placeholder
	keys := b.keys / floodPart
	for _, v := range []struct {
		name  string
		flood *load.Config
	}{
		{"no flood", nil},
		{fmt.Sprintf("RL.LIMIT of %d keys", keys), flood(keys, floodRate, "RL.LIMIT", "victim:"+each, "1000000", "1m")},
		{fmt.Sprintf("RL.LEASE of one key by %d ids", keys), lease(keys, floodRate, "victim", each, "1")},
		{fmt.Sprintf("RL.LEASE of %d keys by one id", keys), lease(keys, floodRate, "victim:"+each, "one", "1")},
		{"1000 RL.LEASE per second of one key by one id", lease(keys/20, 1000, "victim", "one", "1"+each)},
	} {
		row, err := b.measureFlood(ctx, dir, v.name, v.flood)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", v.name, err)
		}
		rows = append(rows, row)
		b.logf("%s: others' p99 %.2f ms, %.0f leases, %.1f MB more", row.Name, row.Others.Latency.P99.Seconds()*1e3, row.Leases, float64(row.Used)/1e6)
	}
	return rows, nil
}

func (b *bench) measureFlood(ctx context.Context, dir, name string, flood *load.Config) (*floodRow, error) {
	row := &floodRow{Name: name}
	p, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	before, _, err := p.memory()
	if err != nil {
		return nil, err
	}
	others := load.Config{
		Addr: p.addr, Clients: 4, Pipeline: 1, Keys: 1000, Seed: 1, Rate: endArrivals, Duration: 3 * b.runTime,
		Command: []string{"RL.LIMIT", "other:" + load.Placeholder, "1000", "1"},
	}
	flooded := make(chan error, 1)
	if flood == nil {
		flooded <- nil
	} else {
		flood.Addr, others.Duration = p.addr, flood.Duration
		go func() {
			res, err := load.Run(ctx, *flood)
			row.Flood = res
			flooded <- err
		}()
	}
	if row.Others, err = load.Run(ctx, others); err != nil {
		return nil, err
	}
	if err := <-flooded; err != nil {
		return nil, err
	}
	if n := row.Others.Failures(); n > 0 {
		return nil, fmt.Errorf("errors %v of others", row.Others.Errors)
	}
	if row.Flood != nil && row.Flood.Failures() > 0 {
		return nil, fmt.Errorf("errors %v: %v", row.Flood.Errors, row.Flood.Causes)
	}
	if row.Leases, err = p.metric(ctx, "headgate_leases"); err != nil {
		return nil, err
	}
	used, resident, err := p.memory()
	row.Used, row.Resident = used-before, resident
	return row, err
}

func (r *floodRow) target() target {
	return target{
		Name: "1000 calls per second of others, " + r.Name + ": p99", Value: r.Others.Latency.P99.Seconds() * 1000, Unit: " ms", NoBounds: true,
		Detail: fmt.Sprintf("p50 %.2f ms; %.0f leases, %.1f MB more accounted, %.0f MB resident", r.Others.Latency.P50.Seconds()*1000, r.Leases, float64(r.Used)/1e6, float64(r.Resident)/1e6)}
}
