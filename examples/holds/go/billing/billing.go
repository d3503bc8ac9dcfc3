// Package billing charges orders to accounts.
package billing

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Charge charges the units of an order to an account, if it has as many. It asks until it
// is answered, or the context ends: under the order's name they are charged once, by
// whichever try, of whichever process. So an order whose outcome is not known is charged
// by calling Charge again.
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

// unknown reports whether an error leaves open what became of a call. Others are of a call
// that is wrong.
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
