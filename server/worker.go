package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/turns"
)

// workers runs jobs that would take too long on a driver thread. There are two kinds of
// jobs with a queue: jobs that take milliseconds, and jobs that may take seconds. Each kind
// has a fixed number of goroutines and a bounded queue, so INFO does not wait for KEYS.
// Scripts and transactions are a third kind, which takes turns (package turns). A
// connection has at most one job at a time.
type workers struct {
	kinds [workQueues]chan func()
	turns *turns.Turns
	wg    sync.WaitGroup

	// mu guards closed. After closed is set, nobody may submit jobs.
	mu     sync.RWMutex
	closed bool

	// began holds when the job of each goroutine began, in Unix ns; 0 if it has none. The
	// goroutines of the brief kind come first.
	began []atomic.Int64
	// kept is the size, in bytes, of the commands that all unfinished jobs keep.
	kept atomic.Int64
	// deciding counts the unfinished jobs that decide for a cluster.
	deciding atomic.Int64
}

// The kinds of jobs.
const (
	workBrief = iota
	workLong
	workQueues // number of kinds that have a queue

	workTurns = workQueues // slow steps, which take turns
)

// workKind returns the kind of a command's job.
func workKind(cmd *command.Spec) int {
	switch {
	case cmd.Flags&(command.Script|command.Exec) != 0:
		return workTurns
	case cmd.Flags&command.Long != 0:
		return workLong
	}
	return workBrief
}

// workerQueue bounds the waiting jobs of a kind. Beyond it, a command is refused, because
// it would wait too long.
const workerQueue = 1024

// newWorkers returns workers with n goroutines for each kind that has a queue, and n places
// for steps that take turns.
func newWorkers(n int) *workers {
	p := &workers{began: make([]atomic.Int64, workQueues*n), turns: turns.New(n, workerQueue)}
	for kind := range p.kinds {
		jobs := make(chan func(), workerQueue)
		p.kinds[kind] = jobs
		for i := range n {
			p.wg.Go(func() { work(jobs, &p.began[kind*n+i]) })
		}
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

// busy returns the longest time for which a running job has exceeded the time that its kind
// may take.
func (p *workers) busy(now time.Time) (longest time.Duration) {
	for i := range p.began {
		began := p.began[i].Load()
		if began == 0 {
			continue
		}
		took := time.Duration(now.UnixNano() - began)
		if i >= len(p.began)/workQueues {
			took -= longJob
		}
		longest = max(longest, took)
	}
	return max(longest, p.turns.Busy(now))
}

// submit queues job. It returns false after close, or if too many jobs of the kind wait.
// decides reports that the job decides for a cluster.
func (p *workers) submit(kind int, decides bool, job func()) bool {
	return p.submitOf(turns.Client{}, kind, decides, func(*turns.Turn) { job() })
}

// submitOf does the same as submit for a job of a client. The job gets a turn if its kind
// takes turns.
func (p *workers) submitOf(who turns.Client, kind int, decides bool, job func(x *turns.Turn)) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return false
	}
	n := command.Truth(decides)
	p.deciding.Add(n)
	accepted := false
	if kind == workTurns {
		accepted = p.turns.Submit(who, func() {
			x := p.turns.Take(who)
			job(x)
			x.End()
			p.deciding.Add(-n)
		})
	} else {
		select {
		case p.kinds[kind] <- func() { job(nil); p.deciding.Add(-n) }:
			accepted = true
		default:
		}
	}
	if !accepted {
		p.deciding.Add(-n)
	}
	return accepted
}

// keptAlways is how many bytes of its command each job may keep. The number of jobs bounds
// these bytes, and a small command never waits for large ones.
const keptAlways = 8 << 10

// keep notes that a job keeps size bytes of its command. It returns false if all jobs
// together would keep more than most. Small commands are always allowed. A job is also
// allowed if it is the only one.
func (p *workers) keep(size, most int) bool {
	total := p.kept.Add(int64(size))
	if size > keptAlways && total > int64(most) && total > int64(size) {
		p.letGo(size)
		return false
	}
	return true
}

// letGo undoes keep.
func (p *workers) letGo(size int) { p.kept.Add(-int64(size)) }

// close runs the queued jobs. When ctx is done, it drops the jobs that still wait. It ends
// the goroutines after their jobs. Callers that were cut off may still submit jobs, which
// are refused.
func (p *workers) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, jobs := range p.kinds {
		close(jobs)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, jobs := range p.kinds {
			for range jobs {
			}
		}
	})
	defer stop()
	p.turns.Close(ctx)
	p.wg.Wait()
}
