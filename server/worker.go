package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// workers runs what would take too long on a driver thread: a fixed number of
// goroutines and a bounded queue, for jobs of milliseconds and for those that
// may take seconds apart, so that INFO does not wait for KEYS. A connection has
// at most one job at a time.
type workers struct {
	brief, long chan func()
	wg          sync.WaitGroup
	// deciding counts the jobs that decide for a cluster and have not ended.
	deciding atomic.Int64
}

// workerQueue bounds the jobs of a kind that wait; above it a command is
// refused rather than put off without end.
const workerQueue = 1024

// newWorkers returns n goroutines for each kind of jobs.
func newWorkers(n int) *workers {
	p := &workers{brief: make(chan func(), workerQueue), long: make(chan func(), workerQueue)}
	for range n {
		p.wg.Go(func() { run(p.brief) })
		p.wg.Go(func() { run(p.long) })
	}
	return p
}

func run(jobs <-chan func()) {
	for job := range jobs {
		job()
	}
}

// submit queues job, or returns false when too many wait. long tells that it may
// take seconds, decides that it decides for a cluster.
func (p *workers) submit(long, decides bool, job func()) bool {
	n := truth(decides)
	p.deciding.Add(n)
	jobs := p.brief
	if long {
		jobs = p.long
	}
	select {
	case jobs <- func() { job(); p.deciding.Add(-n) }:
		return true
	default:
		p.deciding.Add(-n)
		return false
	}
}

// close runs what is queued, drops what still waits when ctx is done, and ends
// the goroutines. Nobody may submit any more.
func (p *workers) close(ctx context.Context) {
	close(p.brief)
	close(p.long)
	stop := context.AfterFunc(ctx, func() {
		for range p.brief {
		}
		for range p.long {
		}
	})
	defer stop()
	p.wg.Wait()
}
