package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/headgate-io/headgate/bench/load"
)

// evictionRow is how many exhausted keys a flood of new keys pushed out of a
// full table. Each forgotten one would be admitted again before its time.
type evictionRow struct {
	MaxMemory string `json:"maxmemory"`
	Exhausted uint64 `json:"exhausted_keys"`
	Flood     uint64 `json:"flood_keys"`
	// Capacity is the number of keys the table held after the flood.
	Capacity  uint64 `json:"keys_after"`
	Evicted   uint64 `json:"evicted_keys"`
	Forgotten int64  `json:"forgotten_keys"`
	// Accounted is used_memory after the flood in bytes.
	Accounted int64 `json:"accounted_bytes"`
}

// share is the part of the exhausted keys that was forgotten, in percent.
func (e *evictionRow) share() float64 { return 100 * float64(e.Forgotten) / float64(e.Exhausted) }

// target: a flood of keys hit once must not free exhausted ones. Keys to evict
// are found by sampling, which is right with a probability, so the floor
// leaves it one in a thousand.
func (e *evictionRow) target() target {
	return target{
		Name:  fmt.Sprintf("flood of %d new keys at maxmemory %s: forgotten of %d exhausted keys", e.Flood, e.MaxMemory, e.Exhausted),
		Value: e.share(), Unit: " %", Floor: 0.1, Goal: 0, AtMost: true,
		Detail: fmt.Sprintf("%d keys; %d evicted, %d held", e.Forgotten, e.Evicted, e.Capacity),
	}
}

// Sizes of the flood. 64 MB hold about a million keys.
const (
	floodMemory = "64mb"
	floodKeys   = 4_000_000
)

// measureEviction floods servers in which a tenth and half of the table are
// exhausted keys.
func (b *bench) measureEviction(ctx context.Context, dir string) ([]*evictionRow, error) {
	var rows []*evictionRow
	for _, exhausted := range []uint64{100_000, 500_000} {
		row := &evictionRow{MaxMemory: floodMemory, Exhausted: exhausted, Flood: floodKeys}
		if err := b.flood(ctx, dir, row); err != nil {
			return rows, err
		}
		b.logf("eviction: %d of %d exhausted keys forgotten, %d evicted", row.Forgotten, row.Exhausted, row.Evicted)
		rows = append(rows, row)
	}
	return rows, nil
}

func (b *bench) flood(ctx context.Context, dir string, row *evictionRow) error {
	p, err := startHeadgate(dir, b.bin.headgate, "--maxmemory", row.MaxMemory)
	if err != nil {
		return err
	}
	defer p.stop()
	exhausted := []string{"RL.LIMIT", "exh:" + load.Placeholder, "1", "86400"}
	if err := fillKeys(ctx, p, exhausted, row.Exhausted, fillPipeline); err != nil {
		return err
	}
	fresh := []string{"RL.LIMIT", randomKey, strconv.Itoa(limit), "1d"}
	if err := fillKeys(ctx, p, fresh, row.Flood, fillPipeline); err != nil {
		return err
	}
	peek, err := sendKeys(ctx, p, append(exhausted, "PEEK"), row.Exhausted, fillPipeline)
	if err != nil {
		return err
	}
	row.Forgotten = peek.Allowed
	if row.Accounted, _, err = p.memory(); err != nil {
		return err
	}
	stats, err := p.info("stats")
	if err != nil {
		return err
	}
	if row.Evicted, err = strconv.ParseUint(stats["evicted_keys"], 10, 64); err != nil {
		return fmt.Errorf("INFO stats: evicted_keys: %w", err)
	}
	row.Capacity, err = p.keys()
	return err
}
