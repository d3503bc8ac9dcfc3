package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// counting is a node without a leader that knows a counter of 7 with 60 s to
// live.
func counting(t *testing.T) (*node, *engine.Local) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	_, err := n.s.Incr(start, []byte("n"), 7)
	require.NoError(t, err)
	_, err = n.s.Expire(start, []byte("n"), start+minute, 0)
	require.NoError(t, err)
	n.cut()
	n.l.Commit()
	n.depose()
	l := engine.NewLocal(n.e)
	l.Begin(3, 0)
	return n, l
}

// grow adds to a counter without a leader.
func grow(t *testing.T, l *engine.Local, now int64, key string, by int64) (sum int64) {
	t.Helper()
	require.NoError(t, l.Count(now, 0, [][]byte{[]byte(key)}, func(step *engine.CountStep) (err error) {
		sum, err = step.Session.Incr(now, []byte(key), by)
		return err
	}))
	return sum
}

func TestCountingLeavesTheReplicatedTableAlone(t *testing.T) {
	n, l := counting(t)
	before := n.table(start)
	require.EqualValues(t, 8, grow(t, l, start, "n", 1))
	require.EqualValues(t, 3, grow(t, l, start, "new", 3))
	require.Equal(t, before, n.table(start))
	require.EqualValues(t, 2, l.Admitted())
}

// A counter that has expired begins anew, and what was counted before is not
// charged.
func TestCountingEndsWithTheTimeToLive(t *testing.T) {
	_, l := counting(t)
	require.EqualValues(t, 9, grow(t, l, start, "n", 2))
	require.EqualValues(t, 4, grow(t, l, start+minute+1, "n", 4))
	require.Equal(t, []engine.Charge{{Key: []byte("n"), Limit: algo.Limit{Algorithm: algo.Counter}, Units: 4, Deadline: engine.NoExpiry}}, l.Take(9))
	require.EqualValues(t, 5, grow(t, l, start+minute+1, "n", 1))
	require.EqualValues(t, 1, l.Take(9)[0].Units, "each unit once")
	l.Begin(3, 0)
	require.EqualValues(t, 8, grow(t, l, start, "n", 1), "a gap begins with what is replicated")
}

// A step that does something forbidden, or finds no room, has changed nothing.
func TestCountingIsTakenBack(t *testing.T) {
	n, l := counting(t)
	for i, fn := range []func(step *engine.CountStep) error{
		func(*engine.CountStep) error { return engine.ErrNotLocal },
		func(*engine.CountStep) error { return engine.ErrFull },
		func(step *engine.CountStep) error { _, err := step.Session.Delete(start, []byte("n")); return err },
		func(step *engine.CountStep) error {
			_, err := step.Session.Expire(start, []byte("n"), start-1, 0)
			return err
		},
		func(step *engine.CountStep) error {
			_, err := step.Session.Set(start, []byte("n"), []byte("text"), &engine.SetOptions{})
			return err
		},
		func(step *engine.CountStep) error {
			return step.Set([]byte("n"), false, func() { panic("runs") })
		},
		func(step *engine.CountStep) error { return step.Set([]byte("stranger"), false, func() {}) },
	} {
		err := l.Count(start, 0, [][]byte{[]byte("n"), []byte("m"), []byte("n")}, func(step *engine.CountStep) error {
			for range 2 {
				_, err := step.Session.Incr(start, []byte("n"), 5)
				require.NoError(t, err)
			}
			_, err := step.Session.Incr(start, []byte("m"), 5)
			require.NoError(t, err)
			return fn(step)
		})
		require.ErrorIs(t, err, engine.ErrNotLocal, i)
	}
	require.Empty(t, l.Take(9))
	require.EqualValues(t, 7, grow(t, l, start, "n", 0))
	require.Zero(t, grow(t, l, start, "m", 0))
	var many [][]byte
	for i := range engine.LocalTogether + 1 {
		many = append(many, fmt.Append(nil, i))
	}
	require.ErrorIs(t, l.Count(start, 0, many, func(*engine.CountStep) error { panic("runs") }), engine.ErrNotLocal)
	require.ErrorIs(t, engine.NewLocal(n.e).Count(start, 0, many[:1], func(*engine.CountStep) error { panic("runs") }), engine.ErrNotLocal, "no gap has begun")
}

// Charges to a counter add up with what the leader has, whatever became of it.
func TestChargesToCounters(t *testing.T) {
	const later = start + minute
	in := algo.Limit{Algorithm: algo.Counter}
	for _, tc := range []struct {
		name          string
		value, expiry int64 // the leader's; none without an expiry
		charge        engine.Charge
		want, expires int64
	}{
		{"absent", 0, 0, engine.Charge{Units: 3, Deadline: later}, 3, later},
		{"absent, with an initial value", 0, 0, engine.Charge{Units: 3, Initial: 10, Deadline: later}, 13, later},
		{"absent, nothing to add", 0, 0, engine.Charge{Deadline: later}, 0, 0},
		{"absent, for ever", 0, 0, engine.Charge{Units: 3, Deadline: engine.NoExpiry}, 0, 0},
		{"absent, over", 0, 0, engine.Charge{Units: 3, Deadline: start}, 0, 0},
		{"there", 5, later, engine.Charge{Units: 3, Initial: 10, Deadline: later}, 8, later},
		{"less", 5, later, engine.Charge{Units: -3, Deadline: later}, 2, later},
		{"there for longer", 5, later + 9, engine.Charge{Units: 3, Deadline: later}, 8, later + 9},
		{"there for less", 5, later - 9, engine.Charge{Units: 3, Deadline: later}, 8, later},
		{"there for ever, as the node found it", 5, engine.NoExpiry, engine.Charge{Units: 3, Known: engine.NoExpiry, Deadline: later}, 8, later},
		{"there for ever, which it was not", 5, engine.NoExpiry, engine.Charge{Units: 3, Known: later, Deadline: later}, 8, engine.NoExpiry},
		{"there for ever, which it was not, nor for so long", 5, engine.NoExpiry, engine.Charge{Units: 3, Known: later, Deadline: later + 9}, 8, engine.NoExpiry},
		{"made for ever where it was absent", 5, engine.NoExpiry, engine.Charge{Units: 3, Deadline: later}, 8, engine.NoExpiry},
		{"prolonged", 5, later + 9, engine.Charge{Units: 3, Known: later, Deadline: later}, 8, later + 9},
		{"shortened", 5, later - 9, engine.Charge{Units: 3, Known: later, Deadline: later}, 8, later - 9},
		{"prolonged without a leader", 5, later, engine.Charge{Units: 3, Known: later, Deadline: later + 9}, 8, later + 9},
		{"shortened without a leader", 5, later, engine.Charge{Units: 3, Known: later, Deadline: later - 9}, 8, later - 9},
		{"set by both", 5, later + 1, engine.Charge{Units: 3, Known: later, Deadline: later + 9}, 8, later + 9},
		{"given an end", 5, later, engine.Charge{Units: 3, Known: engine.NoExpiry, Deadline: engine.NoExpiry}, 8, later},
		{"counted for ever", 5, later, engine.Charge{Units: 3, Deadline: engine.NoExpiry}, 8, later},
		{"there, over", 5, later, engine.Charge{Units: 3, Deadline: start - 1}, 5, later},
		{"only its expiry", 5, engine.NoExpiry, engine.Charge{Known: engine.NoExpiry, Deadline: later}, 5, later},
	} {
		n := newNode(t, engine.Config{})
		n.r.Lead(start)
		key := []byte("k")
		if tc.expiry != 0 {
			_, err := n.s.Incr(start, key, tc.value)
			require.NoError(t, err)
			_, err = n.s.Expire(start, key, tc.expiry, 0)
			require.NoError(t, err)
		}
		tc.charge.Key, tc.charge.Limit = key, in
		for range 2 {
			chargeOnce(t, n.s, "n1", 7, []engine.Charge{tc.charge})
		}
		got := counterOf(t, n.s, "k")
		require.Equal(t, counted{tc.expires != 0, tc.want, tc.expires}, got, tc.name)
	}
}

// Changes of a time to live by the leader's users stay. A change that only a node without
// a leader got takes effect.
func TestChargesLeaveTheTimeToLive(t *testing.T) {
	expire := func(t *testing.T, l *engine.Local, at int64) {
		require.NoError(t, l.Count(start, 0, [][]byte{[]byte("n")}, func(step *engine.CountStep) error {
			_, err := step.Session.Expire(start, []byte("n"), at, 0)
			return err
		}))
	}
	persist := func(t *testing.T, n *node) { require.True(t, is(n.s.Persist(start, []byte("n")))) }
	for name, f := range map[string]struct {
		without func(t *testing.T, l *engine.Local)
		leader  func(t *testing.T, n *node)
		again   func(t *testing.T, l *engine.Local) // in the next gap, before anything is charged
		value   int64
		expires int64
	}{
		"counted":              {value: 9, expires: start + minute},
		"made persistent":      {leader: persist, value: 9, expires: engine.NoExpiry},
		"expires, made to":     {without: func(t *testing.T, l *engine.Local) { expire(t, l, start+9*minute) }, value: 9, expires: start + 9*minute},
		"expires, persistent":  {without: func(t *testing.T, l *engine.Local) { expire(t, l, start+9*minute) }, leader: persist, value: 9, expires: engine.NoExpiry},
		"expires, counted too": {without: func(t *testing.T, l *engine.Local) { expire(t, l, start+9*minute) }, again: func(t *testing.T, l *engine.Local) { grow(t, l, start, "n", 1) }, value: 10, expires: start + 9*minute},
		"set for ever": {leader: func(t *testing.T, n *node) {
			require.True(t, is(n.s.Set(start, []byte("n"), []byte("1000000"), &engine.SetOptions{})))
		}, value: 1_000_002, expires: engine.NoExpiry},
	} {
		t.Run(name, func(t *testing.T) {
			n, l := counting(t)
			grow(t, l, start, "n", 2)
			if f.without != nil {
				f.without(t, l)
			}
			n.r.Lead(start)
			if f.leader != nil {
				f.leader(t, n)
			}
			if f.again != nil {
				l.Begin(3, 0)
				f.again(t, l)
			}
			chargeOnce(t, n.s, "n1", 7, l.Take(9))
			got := counterOf(t, n.s, "n")
			require.Equal(t, counted{true, f.value, f.expires}, got)
		})
	}
}

// Counts of a gap that expired before the next one are not charged to the key's new
// state.
func TestCountingForgetsWhatIsOver(t *testing.T) {
	n, l := counting(t)
	grow(t, l, start, "n", 2)
	n.r.Lead(start)
	const later = start + minute + 1
	_, err := n.s.Incr(later, []byte("n"), 1)
	require.NoError(t, err)
	l.Begin(3, 0)
	require.EqualValues(t, 4, grow(t, l, later, "n", 3))
	require.Equal(t, []engine.Charge{{Key: []byte("n"), Limit: algo.Limit{Algorithm: algo.Counter}, Units: 3, Deadline: engine.NoExpiry, Known: engine.NoExpiry}}, l.Take(9))
}

// A key that is no longer an integer, or has no room for more, cannot be charged.
func TestChargesToCountersThatAreLost(t *testing.T) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	for key, value := range map[string]string{"text": "abc", "large": "9223372036854775807"} {
		_, err := n.s.Set(start, []byte(key), []byte(value), &engine.SetOptions{})
		require.NoError(t, err)
	}
	decide(t, n.s, start, "limit", perMinute(algo.Token, 5), 1, algo.Options{})
	var charges []engine.Charge
	for _, key := range []string{"text", "large", "limit", "good"} {
		charges = append(charges, engine.Charge{Key: []byte(key), Limit: algo.Limit{Algorithm: algo.Counter}, Units: 3, Deadline: start + minute})
	}
	lost, err := n.s.ChargeOnce(start, "n1", 7, charges)
	require.NoError(t, err)
	require.Equal(t, 3, lost)
	require.EqualValues(t, 3, counterOf(t, n.s, "good").value)
}

// counted is what a counter is, 0 if there is none.
type counted struct {
	live            bool
	value, deadline int64
}

// counterOf reads a counter.
func counterOf(t *testing.T, s *engine.Session, key string) (c counted) {
	t.Helper()
	text, live, err := s.Get(start, []byte(key), nil)
	require.NoError(t, err)
	if !live {
		return c
	}
	value, integer := canonical(text)
	require.True(t, integer, "%q", text)
	at, persistent, _, err := s.Deadline(start, []byte(key))
	require.NoError(t, err)
	if persistent {
		at = engine.NoExpiry
	}
	return counted{true, value, at}
}
