package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// logRow is what a sorted set that a sliding log is kept in costs a cluster.
type logRow struct {
	// Entries is how many the sorted set had at the end, Hits how many calls
	// changed it, at PerSecond.
	Entries   int64   `json:"entries"`
	Hits      int64   `json:"hits"`
	PerSecond float64 `json:"per_second"`
	// Payload is the bytes of the batches per hit. Changes is the bytes of the entry that
	// a hit adds, and of the name of the entry that has gone meanwhile.
	Payload float64 `json:"payload_bytes_per_hit"`
	Changes float64 `json:"change_bytes_per_hit"`
}

// The load of the log: it holds as many entries as it is hit in a second.
const (
	loggedRate   = 1000
	loggedLimit  = 2000 // never reached
	loggedWindow = "1000"
	loggedTime   = 10 * time.Second
	// entryBytes are those of an entry, a score and a name of 12 digits, and
	// of another name.
	entryBytes = 8 + 12 + 12
)

// measureLog hits one sorted set of a cluster and reads what travels.
func (b *bench) measureLog(ctx context.Context, dir string) (*logRow, error) {
	c, err := startCluster(dir, "log", b.bin.headgate)
	if err != nil {
		return nil, err
	}
	defer c.stop()
	leader, err := c.settle()
	if err != nil {
		return nil, err
	}
	text, err := scriptFiles.ReadFile("scripts/serverlog.lua")
	if err != nil {
		return nil, err
	}
	sha, err := leader.ask("SCRIPT", "LOAD", string(text))
	if err != nil {
		return nil, err
	}
	hit := func(d time.Duration, seed uint64) (*load.Result, error) {
		res, err := load.Run(ctx, load.Config{
			Addr: leader.addr, Clients: 4, Pipeline: 1, Rate: loggedRate, Duration: d, Seed: seed,
			Command: []string{"EVALSHA", sha.Str, "1", "log", fmt.Sprint(loggedLimit), loggedWindow, load.Placeholder},
			Keys:    1_000_000_000_000,
		})
		if err == nil && res.Failures() > 0 {
			err = fmt.Errorf("hit the log: errors %v", res.Errors)
		}
		return res, err
	}
	if _, err := hit(3*time.Second, 1); err != nil { // until it has its length
		return nil, err
	}
	before, err := leader.replication()
	if err != nil {
		return nil, err
	}
	res, err := hit(min(b.long, loggedTime), 2)
	if err != nil {
		return nil, err
	}
	after, err := leader.replication()
	if err != nil {
		return nil, err
	}
	entries, err := leader.ask("ZCARD", "log")
	if err != nil {
		return nil, err
	}
	row := &logRow{Entries: entries.Int, Hits: res.Replies, PerSecond: res.Rate, Changes: entryBytes,
		Payload: float64(after.payload-before.payload) / float64(max(res.Replies, 1))}
	b.logf("log of %d entries, %.0f hits/s: %.1f B/hit for %.0f B of changes", row.Entries, row.PerSecond, row.Payload, row.Changes)
	return row, nil
}
