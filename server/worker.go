package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/server/command"
)

// workers runs what would take too long on a driver thread: a fixed number of
// goroutines and a bounded queue, for jobs of milliseconds and for those that
// may take seconds apart, so that INFO does not wait for KEYS. A connection has
// at most one job at a time.
type workers struct {
	brief, long chan func()
	wg          sync.WaitGroup
	// began has when the job of each goroutine began, Unix ns, or 0: first the
	// brief kind's, then the long one's.
	began []atomic.Int64
	// kept is how many bytes of commands the jobs that have not ended hold on to.
	kept atomic.Int64
	// deciding counts the jobs that decide for a cluster and have not ended.
	deciding atomic.Int64
}

// workerQueue bounds the jobs of a kind that wait; above it a command is
// refused rather than put off without end.
const workerQueue = 1024

// newWorkers returns n goroutines for each kind of jobs.
func newWorkers(n int) *workers {
	p := &workers{brief: make(chan func(), workerQueue), long: make(chan func(), workerQueue), began: make([]atomic.Int64, 2*n)}
	for i := range n {
		p.wg.Go(func() { work(p.brief, &p.began[i]) })
		p.wg.Go(func() { work(p.long, &p.began[n+i]) })
	}
	return p
}

func work(jobs <-chan func(), began *atomic.Int64) {
	for job := range jobs {
		began.Store(time.Now().UnixNano())
		job()
		began.Store(0)
	}
}

// busy returns how long the job has taken that has for longest, without the
// time that one of its kind may take.
func (p *workers) busy(now time.Time) (longest time.Duration) {
	for i := range p.began {
		began := p.began[i].Load()
		if began == 0 {
			continue
		}
		took := time.Duration(now.UnixNano() - began)
		if i >= len(p.began)/2 {
			took -= longJob
		}
		longest = max(longest, took)
	}
	return longest
}

// submit queues job, or returns false when too many wait. long tells that it may
// take seconds, decides that it decides for a cluster.
func (p *workers) submit(long, decides bool, job func()) bool {
	n := command.Truth(decides)
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

// keep notes that a job holds on to size bytes of its command, or returns false
// when all of them would hold on to more than most. One always may.
func (p *workers) keep(size, most int) bool {
	total := p.kept.Add(int64(size))
	if total > int64(most) && total > int64(size) {
		p.letGo(size)
		return false
	}
	return true
}

// letGo takes back what keep has noted.
func (p *workers) letGo(size int) { p.kept.Add(-int64(size)) }

// close runs what is queued, drops what still waits when ctx is done, and ends
// the goroutines once their jobs have. Nobody may submit any more.
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
