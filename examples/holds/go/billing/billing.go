// Package billing charges orders to accounts.
package billing

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Charge charges the units of an order to an account, and reports whether the account had
// enough. It repeats the call until it gets an answer or the context ends. Under the name of
// the order the units are charged only once, even by several processes. So if the outcome
// of an order is not known, call Charge again.
func Charge(ctx context.Context, rdb redis.UniversalClient, account, order string, units int) (bool, error) {
	for {
		r, err := rdb.Do(ctx, "RL.CHECK", "billing", "account", account, "COST", units, "ID", order).Slice()
		if err == nil {
			return r[0] == int64(1), nil
		}
		if !unknown(err) {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// unknown reports whether the outcome of a call is unknown after this error. The other
// errors mean that the call is wrong.
func unknown(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true // no connection, or no answer in time
	}
	for _, code := range []string{"CLUSTERDOWN", "UNCERTAIN", "TRYAGAIN", "BUSY"} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}
