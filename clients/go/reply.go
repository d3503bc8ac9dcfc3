package headgate

import (
	"fmt"
	"time"
)

// grant is the reply to RL.LEASE.
type grant struct {
	Decision
	granted   int64 // units now, those that callers waited for included
	ttl       time.Duration
	refill    int64 // units that become due evenly over refillFor
	refillFor time.Duration
}

// The values of replies, in the order of RESP2. Maps of RESP3 have these names.
var (
	decisionFields = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}
	leaseFields    = append(decisionFields[:len(decisionFields):len(decisionFields)], "granted", "ttl_ms", "refill", "refill_ms", "holders")
)

// values reads the fields of a reply, an array or a map of integers, into to.
func values(reply any, fields []string, to []int64) error {
	var at func(i int) any
	switch r := reply.(type) {
	case []any:
		if len(r) < len(fields) {
			return fmt.Errorf("headgate: the reply has %d values, %d are needed: is the server Headgate?", len(r), len(fields))
		}
		at = func(i int) any { return r[i] }
	case map[string]any:
		at = func(i int) any { return r[fields[i]] }
	case map[any]any:
		at = func(i int) any { return r[fields[i]] }
	default:
		return fmt.Errorf("headgate: the reply is a %T, not an array or a map: is the server Headgate?", reply)
	}
	for i, name := range fields {
		switch n := at(i).(type) {
		case int64:
			to[i] = n
		case int:
			to[i] = int64(n)
		default:
			return fmt.Errorf("headgate: %s of the reply is a %T, not an integer: is the server Headgate?", name, n)
		}
	}
	return nil
}

// decisionOf reads the reply to RL.LIMIT.
func decisionOf(reply any) (Decision, error) {
	var v [6]int64
	if err := values(reply, decisionFields, v[:]); err != nil {
		return Decision{}, err
	}
	return decision(v[:]), nil
}

func decision(v []int64) Decision {
	d := Decision{Allowed: v[0] != 0, Limit: v[1], Remaining: v[2], RetryAfter: millis(v[3]), ResetAfter: millis(v[4]), Delay: millis(v[5])}
	if v[3] < 0 {
		d.RetryAfter = -1
	}
	return d
}

// grantOf reads the reply to RL.LEASE.
func grantOf(reply any) (grant, error) {
	var v [11]int64
	if err := values(reply, leaseFields, v[:]); err != nil {
		return grant{}, err
	}
	return grant{decision(v[:6]), v[6], millis(v[7]), v[8], millis(v[9])}, nil
}

// millis returns a number of milliseconds, without overflow.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(min(n, most), 0)) * time.Millisecond
}
