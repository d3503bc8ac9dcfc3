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
	holders   int64
}

// The values of replies, in the order of RESP2. Maps of RESP3 have these names.
var (
	decisionFields = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"}
	leaseFields    = append(decisionFields[:6:6], "granted", "ttl_ms", "refill", "refill_ms", "holders")
	checkFields    = append(decisionFields[:6:6], "name", "reason", "hold", "version", "applied", "limits", "soft")
	limitFields    = append(append([]string{"name"}, decisionFields...), "cost", "mode", "status", "window_ms")
	slotFields     = []string{"allowed", "limit", "remaining", "retry_after_ms", "id", "ttl_ms"}
)

// fields returns the values of a reply, an array or a map.
func fields(reply any, names []string) ([]any, error) {
	v := make([]any, len(names))
	switch r := reply.(type) {
	case []any:
		if len(r) < len(names) {
			return nil, fmt.Errorf("headgate: the reply has %d values, %d are needed: is the server Headgate?", len(r), len(names))
		}
		return r[:len(names)], nil
	case map[string]any:
		for i, name := range names {
			v[i] = r[name]
		}
	case map[any]any:
		for i, name := range names {
			v[i] = r[name]
		}
	default:
		return nil, fmt.Errorf("headgate: the reply is a %T, not an array or a map: is the server Headgate?", reply)
	}
	return v, nil
}

// ints reads the integers at the begin of v into to.
func ints(v []any, names []string, to []int64) error {
	for i := range to {
		switch n := v[i].(type) {
		case int64:
			to[i] = n
		case int:
			to[i] = int64(n)
		default:
			return fmt.Errorf("headgate: %s of the reply is a %T, not an integer: is the server Headgate?", names[i], n)
		}
	}
	return nil
}

// text returns a string of a reply. It is empty for nil.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// degraded reports whether the server's failure policy made a reply of RESP3.
func degraded(reply any) bool {
	switch r := reply.(type) {
	case map[string]any:
		return r["degraded"] == true
	case map[any]any:
		return r["degraded"] == true
	}
	return false
}

// decisionOf reads the reply to RL.LIMIT.
func decisionOf(reply any) (d Decision, err error) {
	v, err := fields(reply, decisionFields)
	if err != nil {
		return d, err
	}
	var n [6]int64
	if err := ints(v, decisionFields, n[:]); err != nil {
		return d, err
	}
	d = decision(n[:])
	d.Degraded = degraded(reply)
	return d, nil
}

func decision(v []int64) Decision {
	return Decision{
		Allowed: v[0] != 0, Limit: v[1], Remaining: v[2], RetryAfter: retryAfter(v[3]), ResetAfter: millis(v[4]), Delay: millis(v[5]),
	}
}

// grantOf reads the reply to RL.LEASE.
func grantOf(reply any) (g grant, err error) {
	v, err := fields(reply, leaseFields)
	if err != nil {
		return g, err
	}
	var n [11]int64
	if err := ints(v, leaseFields, n[:]); err != nil {
		return g, err
	}
	return grant{decision(n[:6]), n[6], millis(n[7]), n[8], millis(n[9]), n[10]}, nil
}

// verdictOf reads the reply to RL.CHECK and the commands of holds.
func verdictOf(reply any) (d Decision, err error) {
	v, err := fields(reply, checkFields)
	if err != nil {
		return d, err
	}
	var n [6]int64
	if err := ints(v, checkFields, n[:]); err != nil {
		return d, err
	}
	d = decision(n[:])
	d.Degraded = degraded(reply)
	d.Name, d.Reason, d.Hold = text(v[6]), text(v[7]), text(v[8])
	limits, ok := v[11].([]any)
	if !ok {
		return d, fmt.Errorf("headgate: limits of the reply is a %T, not an array: is the server Headgate?", v[11])
	}
	for _, limit := range limits {
		v, err := fields(limit, limitFields)
		if err != nil {
			return d, err
		}
		var n [7]int64
		if err := ints(v[1:], limitFields[1:], n[:]); err != nil {
			return d, err
		}
		var m [2]int64
		if err := ints(v[9:], limitFields[9:], m[:]); err != nil {
			return d, err
		}
		if d.Limits == nil {
			d.Limits = make(map[string]LimitVerdict, len(limits))
		}
		d.Limits[text(v[0])] = LimitVerdict{
			Allowed: n[0] != 0, Limit: n[1], Remaining: n[2], RetryAfter: retryAfter(n[3]), ResetAfter: millis(n[4]), Delay: millis(n[5]),
			Cost: n[6], Mode: text(v[8]), Status: int(m[0]), Window: millis(m[1]),
		}
	}
	return d, nil
}

// slotOf reads the reply to RL.ACQUIRE.
func slotOf(reply any) (d Decision, id string, err error) {
	v, err := fields(reply, slotFields)
	if err != nil {
		return d, "", err
	}
	var n [4]int64
	if err := ints(v, slotFields, n[:]); err != nil {
		return d, "", err
	}
	d = Decision{Allowed: n[0] != 0, Degraded: degraded(reply), Limit: n[1], Remaining: n[2], RetryAfter: retryAfter(n[3])}
	return d, text(v[4]), nil
}

func retryAfter(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return millis(ms)
}

// millis returns a number of milliseconds, without overflow.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(min(n, most), 0)) * time.Millisecond
}
