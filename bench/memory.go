package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// memoryRow is what a server holds per key.
type memoryRow struct {
	Label string `json:"label"`
	Keys  uint64 `json:"keys"`
	// Accounted is what the server says it uses (INFO used_memory, less what
	// it used when empty), Resident the process's growth, both in bytes.
	Accounted int64 `json:"accounted_bytes"`
	Resident  int64 `json:"resident_bytes"`
	// Total is the whole process's resident memory in bytes.
	Total int64 `json:"process_bytes"`
	// Pause is the longest stop of the garbage collector while the table was
	// filled, in seconds, of its last 256; 0 for peers.
	Pause float64 `json:"gc_pause_seconds,omitempty"`
	token bool
	// floor and goal are promised bytes per key; 0 if none are.
	floor, goal float64
}

func (m *memoryRow) perKey() float64 { return float64(m.Accounted) / float64(m.Keys) }

// targets are promised for token state and for the values of Redis limiters. The other
// rows are for information.
func (m *memoryRow) targets() []target {
	if m.floor > 0 {
		return []target{{Name: "accounted bytes per key: " + m.Label, Value: m.perKey(), Unit: " B", Floor: m.floor, Goal: m.goal, AtMost: true}}
	}
	if !m.token {
		return nil
	}
	var list []target
	if m.Keys >= 10_000_000 {
		list = append(list,
			target{Name: "accounted bytes per key at 10 million token keys", Value: m.perKey(), Unit: " B", Floor: 64, Goal: 64, AtMost: true},
			target{Name: "resident over accounted memory at 10 million token keys", Value: float64(m.Resident) / float64(m.Accounted), Unit: "x", Floor: 1.8, Goal: 1.8, AtMost: true},
			target{Name: "longest pause of the garbage collector, filling 10 million token keys", Value: m.Pause * 1e3, Unit: " ms", Floor: 1, Goal: 1, AtMost: true})
	} else {
		list = append(list, target{Name: "process with a million token keys", Value: float64(m.Total) / 1e6, Unit: " MB", Floor: 200, Goal: 200, AtMost: true})
	}
	return list
}

// states are the kinds of state Headgate keeps, one key each.
func states() []struct{ name, command string } {
	const key = randomKey
	return []struct{ name, command string }{
		{"token", "RL.LIMIT " + key + " 100 86400 ALGORITHM token"},
		{"leaky", "RL.LIMIT " + key + " 100 86400 ALGORITHM leaky"},
		{"fixed", "RL.LIMIT " + key + " 100 86400 ALGORITHM fixed"},
		{"sliding", "RL.LIMIT " + key + " 100 86400 ALGORITHM sliding"},
		{"log, one entry", "RL.LIMIT " + key + " 100 86400 ALGORITHM log"},
		{"concurrency, one holder", "RL.ACQUIRE " + key + " 10 86400"},
	}
}

// values are what limiters of Redis keep, with the promised bytes per key. They are a
// counter with a time to live, and the hash of two fields of tokenbucket.lua, whose SHA1
// is given.
func values(bucketSHA string) []struct {
	name, command string
	floor, goal   float64
} {
	const key = randomKey
	return []struct {
		name, command string
		floor, goal   float64
	}{
		{"counter with a time to live", "SET " + key + " 1 EX 86400", 64, 56},
		{"token bucket of a script, a hash of two fields", "EVALSHA " + bucketSHA + " 1 " + key + " 100 0.001 1", 160, 110},
	}
}

// measureMemory fills a fresh server per row, so that no row inherits the
// garbage of another.
func (b *bench) measureMemory(ctx context.Context, dir string) ([]*memoryRow, error) {
	var rows []*memoryRow
	add := func(row *memoryRow, start func() (*process, []string, error)) error {
		if err := b.measureFill(ctx, row, start); err != nil {
			return fmt.Errorf("memory of %s: %w", row.Label, err)
		}
		b.logf("memory  %-40s %9d keys  %6.1f B/key accounted  %6.1f B/key resident", row.Label, row.Keys,
			row.perKey(), float64(row.Resident)/float64(row.Keys))
		rows = append(rows, row)
		return nil
	}
	ours := func(command string) func() (*process, []string, error) {
		return func() (*process, []string, error) {
			p, err := startHeadgate(dir, b.bin.headgate)
			return p, strings.Fields(command), err
		}
	}
	for _, s := range states() {
		row := &memoryRow{Label: "Headgate " + s.name, Keys: uint64(b.keys), token: s.name == "token"}
		if err := add(row, ours(s.command)); err != nil {
			return nil, err
		}
	}
	for _, v := range values(scriptSHA1(tokenBucketLua)) {
		row := &memoryRow{Label: "Headgate " + v.name, Keys: uint64(b.keys), floor: v.floor, goal: v.goal}
		start := func() (*process, []string, error) {
			p, err := startHeadgate(dir, b.bin.headgate)
			if err == nil {
				_, err = p.ask("SCRIPT", "LOAD", tokenBucketLua)
			}
			return p, strings.Fields(v.command), err
		}
		if err := add(row, start); err != nil {
			return nil, err
		}
	}
	if !b.quick {
		row := &memoryRow{Label: "Headgate token", Keys: 10_000_000, token: true}
		if err := add(row, ours(states()[0].command)); err != nil {
			return nil, err
		}
	}
	for _, p := range b.peers {
		if p.name == headgate || !p.fill || p.lockstep { // throttlecrab, which is, has no INFO
			continue
		}
		row := &memoryRow{Label: p.label, Keys: uint64(b.keys)}
		if err := add(row, func() (*process, []string, error) { return p.fresh(dir) }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// fresh starts an empty server of the peer and returns the command that
// creates a key.
func (p *peer) fresh(dir string) (*process, []string, error) {
	other := *p
	var err error
	if other.process, err = p.start(dir); err != nil {
		return nil, nil, err
	}
	if other.prepare != nil {
		if err := other.prepare(&other); err != nil {
			other.stop()
			return nil, nil, err
		}
	}
	return other.process, other.check(randomKey, daily(limit)), nil
}

// measureFill fills row in from a server that it starts and stops.
func (b *bench) measureFill(ctx context.Context, row *memoryRow, start func() (*process, []string, error)) error {
	p, command, err := start()
	if err != nil {
		return err
	}
	defer p.stop()
	used, rss, err := p.memory()
	if err != nil {
		return err
	}
	if err := fillKeys(ctx, p, command, row.Keys, fillPipeline); err != nil {
		return err
	}
	if n, err := p.keys(); err != nil || n != row.Keys {
		return fmt.Errorf("DBSIZE is %d after %d keys: %w", n, row.Keys, err)
	}
	usedAfter, rssAfter, err := p.memory()
	if err != nil {
		return err
	}
	row.Accounted, row.Resident, row.Total = usedAfter-used, rssAfter-rss, rssAfter
	if p.http != "" {
		row.Pause, err = p.metric(ctx, `go_gc_duration_seconds{quantile="1"}`)
	}
	return err
}

// memory returns INFO's used_memory and the resident memory in bytes.
func (p *process) memory() (used, rss int64, err error) {
	fields, err := p.info("memory")
	if err != nil {
		return 0, 0, err
	}
	if used, err = strconv.ParseInt(fields["used_memory"], 10, 64); err != nil {
		return 0, 0, fmt.Errorf("%s: INFO memory: used_memory: %w", p.name, err)
	}
	rss, err = p.rss()
	return used, rss, err
}

// scriptSHA1 is the name of a script in EVALSHA.
func scriptSHA1(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
