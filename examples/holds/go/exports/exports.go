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

// ErrSlotLost is the cause for which the context of an export ends that has no slot any more.
var ErrSlotLost = errors.New("the slot was lost")

// LimitedError is that of an export for which there is no slot, or no quota.
type LimitedError struct {
	Limit string
	Retry time.Duration // at most, as a slot may be free sooner; below 0 no wait helps
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("over %s, retry after %v", e.Limit, e.Retry)
}

// Run does an export in a slot, which it keeps for as long as that takes; ttl is that of
// the policy. job names it: a job that is run again, as its process has died, has its slot
// and its place in the quota still.
func Run(ctx context.Context, rdb redis.UniversalClient, tenant, job string, ttl time.Duration, export func(context.Context) error) error {
	hold, err := take(ctx, rdb, tenant, job)
	if err != nil {
		return err
	}
	defer rdb.Do(context.WithoutCancel(ctx), "RL.COMMIT", hold) // unheard, the slot ends by itself
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { renew(ctx, rdb, tenant, job, ttl, done, lost) })
	defer renewing.Wait() // behind the commit it would take a slot anew
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

// take takes the slot of a job, or gives it its time anew.
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
