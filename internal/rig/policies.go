package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// SetPolicy makes a text a policy.
func (r *Rig) SetPolicy(name, text string) {
	r.T.Helper()
	reply := r.Parse(r.Raw("RL.POLICY", "SET", name, text))
	require.IsType(r.T, int64(0), reply, "%v", reply)
}

// Checked is a reply of RL.CHECK.
type Checked struct {
	Allowed, Limit, Remaining, Retry, Reset, Delay int64
	Name, Reason                                   any
	Hold                                           any
	Version, Applied                               int64
	Limits                                         map[string]CheckedLimit
	Soft                                           []any
}

// CheckedLimit is what a reply says of one limit.
type CheckedLimit struct {
	Allowed, Limit, Remaining, Retry, Reset, Delay, Cost int64
	Mode                                                 string
	Status                                               int64
}

// Check runs RL.CHECK with the words of a line.
func (r *Rig) Check(line string) Checked {
	r.T.Helper()
	reply := r.Words("RL.CHECK " + line)
	list, ok := reply.([]any)
	require.True(r.T, ok, "%s: %v", line, reply)
	return ReadChecked(r.T, list)
}

// ReadChecked reads a reply of RL.CHECK.
func ReadChecked(t testing.TB, list []any) Checked {
	t.Helper()
	require.Len(t, list, 13)
	n := func(i int) int64 { return list[i].(int64) }
	c := Checked{n(0), n(1), n(2), n(3), n(4), n(5), list[6], list[7], list[8], n(9), n(10), map[string]CheckedLimit{}, list[12].([]any)}
	for _, l := range list[11].([]any) {
		f := l.([]any)
		n := func(i int) int64 { return f[i].(int64) }
		c.Limits[f[0].(string)] = CheckedLimit{n(1), n(2), n(3), n(4), n(5), n(6), n(7), f[8].(string), n(9)}
	}
	return c
}

// Allows expects a call that passes, the name of its binding limit, and the
// remaining units of some limits.
func (r *Rig) Allows(line, name string, left string) Checked {
	r.T.Helper()
	c := r.Check(line)
	require.EqualValues(r.T, 1, c.Allowed, "%s: %+v", line, c)
	r.ExpectChecked(line, c, name, left)
	return c
}

// Denies expects a denial with its retry in ms.
func (r *Rig) Denies(line, name string, retry int64, left string) Checked {
	r.T.Helper()
	c := r.Check(line)
	require.EqualValues(r.T, 0, c.Allowed, "%s: %+v", line, c)
	require.Equal(r.T, retry, c.Retry, "%s: %+v", line, c)
	r.ExpectChecked(line, c, name, left)
	return c
}

// ExpectChecked expects the name of a binding limit, and the remaining units of some
// limits.
func (r *Rig) ExpectChecked(line string, c Checked, name, left string) {
	r.T.Helper()
	if name == "" {
		require.Nil(r.T, c.Name, line)
	} else {
		require.Equal(r.T, name, c.Name, "%s: %+v", line, c)
	}
	for _, f := range strings.Fields(left) {
		var limit string
		var want int64
		_, err := fmt.Sscanf(strings.Replace(f, "=", " ", 1), "%s %d", &limit, &want)
		require.NoError(r.T, err)
		l, ok := c.Limits[limit]
		require.True(r.T, ok, "%s: %s does not apply: %+v", line, limit, c)
		require.Equal(r.T, want, l.Remaining, "%s: %s: %+v", line, limit, c)
	}
}

// Settled is a reply of RL.COMMIT or RL.CANCEL.
type Settled struct {
	Checked
	Over int64
}

// Settle runs RL.COMMIT or RL.CANCEL with the words of a line.
func (r *Rig) Settle(line string) Settled {
	r.T.Helper()
	list, ok := r.Words(line).([]any)
	require.True(r.T, ok, line)
	require.Len(r.T, list, 14)
	return Settled{ReadChecked(r.T, list[:13]), list[13].(int64)}
}

// Reserve runs RL.RESERVE with the words of a line.
func (r *Rig) Reserve(line string) Checked {
	r.T.Helper()
	reply := r.Words("RL.RESERVE " + line)
	list, ok := reply.([]any)
	require.True(r.T, ok, "%s: %v", line, reply)
	return ReadChecked(r.T, list)
}

// Held reserves what passes, and returns the hold.
func (r *Rig) Held(line string) string {
	r.T.Helper()
	c := r.Reserve(line)
	require.EqualValues(r.T, 1, c.Allowed, "%s: %+v", line, c)
	hold, ok := c.Hold.(string)
	require.True(r.T, ok)
	return hold
}

// Ends has a hold end whose time is over.
func (r *Rig) Ends(hold string) {
	r.T.Helper()
	sess := r.Engine.NewSession()
	defer sess.Close()
	require.Eventually(r.T, func() bool { // who is at it already may have taken it
		r.Engine.SettleEnded(context.Background(), sess, r.Engine.Now())
		return Pair(r.T, r.Words("RL.EXPLAIN HOLD "+hold), "state") == "expired"
	}, 10*time.Second, time.Millisecond)
}
