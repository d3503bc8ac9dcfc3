package load

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// maxWrite bounds what one connection is given at a time when the schedule is
// behind, so that a late schedule is spread over all connections.
const maxWrite = 64 << 10

// schedule is the arrival plan of an open loop: batch b is due b*gap after the start and
// belongs to connection b mod clients. The plan is a formula. So a reader knows when its
// k-th command was due, and a backlog of any length takes no memory.
type schedule struct {
	gap     float64 // ns between batches
	clients int64
	batch   int64 // commands that arrive together
}

func newSchedule(cfg *Config) schedule {
	return schedule{
		gap:     float64(cfg.Pipeline) / cfg.Rate * 1e9,
		clients: int64(cfg.Clients),
		batch:   int64(cfg.Pipeline),
	}
}

// due returns how many batches are due at the instant d, over all connections.
func (s schedule) due(d time.Duration) int64 { return int64(float64(d)/s.gap) + 1 }

// at returns when batch b is due.
func (s schedule) at(b int64) time.Duration { return time.Duration(float64(b) * s.gap) }

// share returns how many of the first n batches belong to connection i.
func (s schedule) share(n, i int64) int64 { return (n - i + s.clients - 1) / s.clients }

// dueAt returns when the k-th command of connection i is due.
func (s schedule) dueAt(k, i int64) time.Duration { return s.at(k/s.batch*s.clients + i) }

// openLoop writes every command when it is due, reads the replies, and waits
// for the missing ones at the end.
func (r *run) openLoop(ctx context.Context) {
	plan := newSchedule(&r.cfg)
	var readers sync.WaitGroup
	for i, c := range r.clients {
		readers.Go(func() {
			due := func(k int64) time.Duration { return plan.dueAt(k, int64(i)) }
			for {
				err := c.fill()
				if err == nil {
					_, err = r.receive(c, due)
				}
				if err == nil {
					continue
				}
				if r.interrupted.Load() {
					return
				}
				c.fail(c.conn, err)
				if !r.reconnect(ctx, c) {
					return
				}
			}
		})
	}
	r.pace(ctx, plan)
	r.drain(ctx)
	r.interrupt()
	readers.Wait()
	for i, c := range r.clients {
		r.unsent += plan.share(plan.due(r.end-1), int64(i))*plan.batch - c.sent.Load()
	}
}

// pace is the writer of all connections.
func (r *run) pace(ctx context.Context, plan schedule) {
	sleep, release := newSleeper()
	defer release()
	var out []byte
	perWrite := max(1, maxWrite/int64(len(r.clients[0].cmd.raw))/plan.batch) // batches
	next, late, skipped := int64(0), false, false
	for last := false; !last && ctx.Err() == nil; {
		now := time.Since(r.start)
		if last = now >= r.end; last {
			now = r.end - 1
		}
		due := plan.due(now)
		// Only connections whose batches have come due since the last round have
		// something to send. A connection that was cut at maxWrite, or skipped because it
		// had failed, may have more.
		turns := min(due-next, plan.clients)
		if late || skipped {
			turns = plan.clients
		}
		late, skipped = false, false
		for turn := range turns {
			i := (next + turn) % plan.clients
			c := r.clients[i]
			n := plan.share(due, i) - c.sent.Load()/plan.batch
			if n <= 0 {
				continue
			}
			cut := n > perWrite
			n = min(n, perWrite)
			conn := c.begin(n * plan.batch)
			if conn == nil {
				skipped = true
				continue
			}
			late = late || cut
			out = c.appendCommands(out[:0], n*plan.batch)
			written, err := conn.Write(out)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded):
				// The deadline is the end of the schedule: a server that has
				// not read by then is slow, not broken.
				c.sent.Add(int64(written/len(c.cmd.raw)) - n*plan.batch)
			case err != nil:
				c.fail(conn, err)
			}
		}
		next = due
		if !late {
			sleep(plan.at(next) - time.Since(r.start))
		}
	}
}

// drain waits until every command sent has its reply, or for Drain.
func (r *run) drain(ctx context.Context) {
	const interval = 5 * time.Millisecond
	for deadline := time.Now().Add(r.cfg.Drain); time.Now().Before(deadline) && ctx.Err() == nil; {
		missing := false
		for _, c := range r.clients {
			missing = missing || c.waits()
		}
		if !missing {
			return
		}
		time.Sleep(interval)
	}
}
