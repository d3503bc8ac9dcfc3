package engine

import (
	"sync"

	"github.com/headgate-io/headgate/shard"
)

// Flush forgets every key, of all shards at one instant, and no system record.
// It replicates as one record, in one cut with what the session decides in the
// same step. On a sealed engine it answers ErrSealed and changes nothing.
func (s *Session) Flush() error {
	e := s.e
	gate := s.enterGate()
	e.table.Lock()
	sealed := e.sealed.Load()
	var unkept []*shard.Contents
	if !sealed {
		unkept = e.table.Detach()
		if e.replica != nil {
			e.replica.flushed = true
		}
	}
	e.table.Unlock()
	s.leaveGate(gate)
	if sealed {
		return ErrSealed
	}
	for _, c := range unkept {
		c.Release()
	}
	return nil
}

// discarded are contents of shards that nobody will need again. Their limits'
// references are given back by one goroutine, which ends when none are left: it
// takes time in proportion to their keys, and neither commits nor Apply wait.
type discarded struct {
	mu      sync.Mutex // guards the fields below
	waiting []*shard.Contents
	running bool
}

func (d *discarded) add(contents ...*shard.Contents) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, contents...)
	if len(d.waiting) > 0 && !d.running {
		d.running = true
		go d.run()
	}
}

func (d *discarded) run() {
	for {
		d.mu.Lock()
		contents := d.waiting
		d.waiting = nil
		d.running = len(contents) > 0
		d.mu.Unlock()
		if len(contents) == 0 {
			return
		}
		for _, c := range contents {
			c.Release()
		}
	}
}
