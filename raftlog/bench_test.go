package raftlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkCommit is one decision after the other, each waited for, on three
// nodes with fsync; BenchmarkCommit/bare is raft.Apply of an entry of the same
// size on the same group.
func BenchmarkCommit(b *testing.B) {
	c := newCluster(b, 3, func(_ int, c *Config) { c.NoSync = false })
	l := c.leader()
	b.Run("group", func(b *testing.B) {
		for i := range b.N {
			if err := l.m.set("key", fmt.Sprint(i)); err != nil {
				b.Fatal(err)
			}
			for l.g.Unacked() > 0 {
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		entry := encodeEntry(entryOldest, header{node: "n0", batch: 1, parts: 1}, make([]byte, 16)) // of no term: all nodes drop it
		for range b.N {
			if err := l.g.raft().ApplyLog(raft.Log{Data: entry}, 0).Error(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
