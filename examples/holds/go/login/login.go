// Package login limits failed logins.
package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// LimitedError means that too many attempts have failed before.
type LimitedError struct{ Retry time.Duration } // below 0: no wait helps

func (e *LimitedError) Error() string {
	return fmt.Sprintf("too many attempts, retry after %v", e.Retry)
}

// Attempt checks a password, unless too many attempts have failed. It tells Headgate only
// that a password was right: in all other cases the attempt stays charged.
func Attempt(ctx context.Context, rdb redis.UniversalClient, user, ip string, verify func(context.Context) (bool, error)) (bool, error) {
	// With an ID, go-redis can repeat the command, and it still counts only once.
	r, err := rdb.Do(ctx, "RL.RESERVE", "login", "user", user, "ip", ip, "ID", rand.Text()).Slice()
	if err != nil {
		return false, err
	}
	if r[0] != int64(1) {
		return false, &LimitedError{time.Duration(r[3].(int64)) * time.Millisecond}
	}
	right, err := verify(ctx)
	if err != nil || !right {
		return false, err
	}
	_ = rdb.Do(ctx, "RL.CANCEL", r[8]).Err() // if this fails, the attempt counts
	return true, nil
}
