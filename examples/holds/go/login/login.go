// Package login limits failed logins.
package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// LimitedError is that of an attempt after too many that failed.
type LimitedError struct{ Retry time.Duration } // below 0 no wait helps

func (e *LimitedError) Error() string {
	return fmt.Sprintf("too many attempts, retry after %v", e.Retry)
}

// Attempt checks a password, unless too many attempts have failed. Only that the password
// was right is told to Headgate: whatever else happens counts.
func Attempt(ctx context.Context, rdb redis.UniversalClient, user, ip string, verify func(context.Context) (bool, error)) (bool, error) {
	// With an ID go-redis may repeat it: it counts once.
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
	_ = rdb.Do(ctx, "RL.CANCEL", r[8]).Err() // unheard, it is an attempt too many
	return true, nil
}
