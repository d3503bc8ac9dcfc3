// Package exports limits how many exports run at a time, and in a day.
package exports

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrSlotLost is why the context of an export ends when the export has lost its slot.
var ErrSlotLost = errors.New("the slot was lost")

// LimitedError means that there is no slot or no quota for an export.
type LimitedError struct {
	Limit string
	Retry time.Duration // a slot may be free sooner; below 0: no wait helps
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("over %s, retry after %v", e.Limit, e.Retry)
}

// Run runs an export in a slot, and keeps the slot while the export runs. ttl is the ttl of
// the policy. job is the name of the export: if its process dies and the job is run again, it
// still has its slot and is not charged again.
func Run(ctx context.Context, rdb redis.UniversalClient, tenant, job string, ttl time.Duration, export func(context.Context) error) error {
	hold, err := take(ctx, rdb, tenant, job)
	if err != nil {
		return err
	}
	defer rdb.Do(context.WithoutCancel(ctx), "RL.COMMIT", hold) // if this fails, the slot ends after its ttl
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { renew(ctx, rdb, tenant, job, ttl, done, lost) })
	defer renewing.Wait() // a renewal after the commit would take a new slot
	defer close(done)
	return export(ctx)
}

// renew keeps the slot of a job until it is done, or the slot is lost.
func renew(ctx context.Context, rdb redis.UniversalClient, tenant, job string, ttl time.Duration, done <-chan struct{}, lost func(error)) {
	for renewed := time.Now(); ; {
		select {
		case <-done:
			return
		case <-time.After(ttl / 4):
		}
		_, err := take(context.WithoutCancel(ctx), rdb, tenant, job)
		switch {
		case err == nil:
			renewed = time.Now()
		case errors.As(err, new(*LimitedError)) || time.Since(renewed) > ttl:
			lost(ErrSlotLost)
			return
		}
	}
}

// take takes a slot for a job, or renews the slot that the job has.
func take(ctx context.Context, rdb redis.UniversalClient, tenant, job string) (hold string, err error) {
	r, err := rdb.Do(ctx, "RL.CHECK", "exports", "tenant", tenant, "ID", job).Slice()
	if err != nil {
		return "", err
	}
	if r[0] != int64(1) {
		name, _ := r[6].(string)
		return "", &LimitedError{name, time.Duration(r[3].(int64)) * time.Millisecond}
	}
	return r[8].(string), nil
}
