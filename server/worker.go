package server

import (
	"context"
	"sync"
	"sync/atomic"
)

// workers runs what would take too long on a driver thread: a fixed number of
// goroutines and a bounded queue. A connection has at most one job at a time.
type workers struct {
	jobs chan func()
	wg   sync.WaitGroup
	// deciding counts the jobs that decide for a cluster and have not ended.
	deciding atomic.Int64
}

// workerQueue bounds the jobs that wait; above it a command is refused rather
// than put off without end.
const workerQueue = 1024

func newWorkers(n int) *workers {
	p := &workers{jobs: make(chan func(), workerQueue)}
	for range n {
		p.wg.Go(func() {
			for job := range p.jobs {
				job()
			}
		})
	}
	return p
}

// submit queues job, or returns false when too many wait. decides tells that the
// job decides for a cluster.
func (p *workers) submit(decides bool, job func()) bool {
	n := truth(decides)
	p.deciding.Add(n)
	select {
	case p.jobs <- func() { job(); p.deciding.Add(-n) }:
		return true
	default:
		p.deciding.Add(-n)
		return false
	}
}

// close runs what is queued, drops what still waits when ctx is done, and ends
// the goroutines. Nobody may submit any more.
func (p *workers) close(ctx context.Context) {
	close(p.jobs)
	stop := context.AfterFunc(ctx, func() {
		for range p.jobs {
		}
	})
	defer stop()
	p.wg.Wait()
}
