package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/shard"
)

// node is an engine with its replica and what the hooks have said.
type node struct {
	e       *engine.Engine
	l       *ledger.Ledger
	r       *engine.Replica
	s       *engine.Session
	deposed uint64
	held    int // reservations made
}

func newNode(t *testing.T, c engine.Config) *node { return replicated(t, engine.New(c)) }

// replicated returns the node of an engine.
func replicated(t *testing.T, e *engine.Engine) *node {
	n := &node{e: e}
	n.l = ledger.New(ledger.Hooks{Deposed: func(upTo uint64) { n.deposed = upTo }})
	n.r = n.e.Replicate(n.l)
	n.s = n.e.NewSession()
	t.Cleanup(n.s.Close)
	return n
}

// table returns the live state as text, by key.
func (n *node) table(now int64) map[string]string { return n.e.States(now) }

// reap removes what has expired.
func (n *node) reap(now int64) {
	for i := range n.e.Table().Shards() {
		for cursor := n.e.Table().Sweep(i, 0, now); cursor != 0; {
			cursor = n.e.Table().Sweep(i, cursor, now)
		}
	}
}

// act makes one random operation of any kind, on a few keys.
func (n *node) act(rnd *rand.Rand, now int64) {
	key := func() []byte { return fmt.Appendf(nil, "key:%d", rnd.IntN(40)) }
	limit := func() algo.Limit {
		return algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))], Limit: 1 + rnd.Int64N(50), Period: minute * (1 + rnd.Int64N(3))}
	}
	n.s.Use([]uint8{0, 0, 1, algo.Databases - 1}[rnd.IntN(4)])
	defer n.s.Use(0)
	switch rnd.IntN(32) {
	case 28, 29, 30, 31:
		n.s.Use(0)
		n.lease(rnd, now, key(), limit())
	case 25, 26, 27:
		n.hold(rnd, now)
	case 23, 24:
		n.check(rnd, now)
	case 16, 17:
		_, _ = n.s.Set(now, key(), randomValue(rnd), &engine.SetOptions{Deadline: []int64{0, now + minute}[rnd.IntN(2)], KeepTTL: rnd.IntN(2) == 0})
	case 18:
		_, _ = n.s.Incr(now, key(), rnd.Int64N(100)-50)
	case 19, 20:
		editValue(n.s, rnd, now, key())
	case 21:
		transfer(n.s, rnd, now, key(), key(), rnd.IntN(2) == 0)
	case 22:
		if rnd.IntN(10) == 0 {
			_ = n.s.FlushDatabase()
			return
		}
		n.step(rnd, now)
	case 13:
		if rnd.IntN(60) == 0 { // seldom: it leaves little to compare
			_ = n.s.Flush()
		}
	case 12:
		charges := []engine.Charge{{Key: key(), Limit: limit(), Units: 1}, {Key: key(), Limit: limit(), Units: 2}}
		_, _ = n.s.ChargeOnce(now, fmt.Sprint("n", rnd.IntN(2)), now-rnd.Int64N(2*second), charges)
	case 0:
		n.s.Delete(now, key())
	case 1:
		_, _, _ = n.s.Acquire(now, key(), 5, minute, fmt.Appendf(nil, "id%d", rnd.IntN(9)), 1)
	case 2:
		_, _ = n.s.Release(now, key(), fmt.Appendf(nil, "id%d", rnd.IntN(9)))
	case 3:
		_, _, _ = n.s.IncrEx(now, key(), &engine.IncrOptions{By: engine.Integer(rnd.Int64N(5)), TTL: minute})
	case 4:
		_, _ = n.s.Decide(now, key(), limit(), -rnd.Int64N(5), &algo.Options{})
	case 5, 6:
		segs := chainOf(engine.Segment{[]byte("chain:a"), limit(), 1}, engine.Segment{[]byte("chain:b"), limit(), 1})
		_, _ = n.s.DecideAll(now, segs, &algo.Options{}, make([]algo.Decision, 2))
	case 7:
		n.s.Expire(now, key(), now+minute*rnd.Int64N(4), 0)
	case 8:
		n.s.Persist(now, key())
	case 9:
		_, _ = n.s.Extend(now, key(), fmt.Appendf(nil, "id%d", rnd.IntN(9)), 2*minute)
	default:
		_, _ = n.s.Decide(now, key(), limit(), 1+rnd.Int64N(3), &algo.Options{Force: rnd.IntN(9) == 0})
	}
}

// lease takes, renews, returns or resets leases of a key.
func (n *node) lease(rnd *rand.Rand, now int64, key []byte, l algo.Limit) {
	id := fmt.Appendf(nil, "id%d", rnd.IntN(4))
	switch rnd.IntN(6) {
	case 0:
		_, _ = n.s.Leases().Return(now, key, id, uint64(now), rnd.Int64N(9))
	case 1:
		_, _ = n.s.Leases().Reset(now, key)
	default:
		if rnd.IntN(2) == 0 { // most of them one limit, so that holders meet
			key, l = []byte("key:1"), perMinute(algo.Token, 50)
		}
		_, _ = n.s.Leases().Take(now, &engine.Lease{Key: key, ID: id, Limit: l, Request: algo.Request{
			Seq: uint64(now), Want: rnd.Int64N(20), Held: rnd.Int64N(5), Need: rnd.Int64N(3), TTL: algo.MinLease + rnd.Int64N(algo.MaxLease-algo.MinLease),
		}})
	}
}

// transfer renames or copies a key.
func transfer(s *engine.Session, rnd *rand.Rand, now int64, from, to []byte, replace bool) {
	db, move := uint8(rnd.IntN(2)), s.Copy
	if rnd.IntN(2) == 0 {
		move = s.Rename
	}
	_, _ = move(now, from, to, db, replace)
}

// step makes some operations in one step, and may take them back.
func (n *node) step(rnd *rand.Rand, now int64) {
	whole := rnd.IntN(4) == 0
	keys := [][]byte{[]byte("key:1"), []byte("key:2"), []byte("key:3")}
	undo := 0
	if rnd.IntN(3) > 0 {
		undo = 1 + rnd.IntN(4<<10)
	}
	var step engine.Step
	if whole {
		step = n.s.IsolateAll(now, nil, undo)
	} else {
		step = n.s.Isolate(now, keys, undo)
	}
	defer step.Commit()
	for range rnd.IntN(12) {
		key := keys[rnd.IntN(len(keys))]
		switch rnd.IntN(6) {
		case 0:
			_, _ = n.s.Set(now, key, randomValue(rnd), &engine.SetOptions{})
		case 1:
			_, _ = n.s.Delete(now, key)
		case 2:
			editValue(n.s, rnd, now, key)
		case 3:
			_, _ = n.s.Decide(now, key, perMinute(algo.Token, 5), 1, &algo.Options{})
		case 4:
			_, _ = n.s.Rename(now, key, keys[0], uint8(rnd.IntN(2)), true)
		case 5:
			if rnd.IntN(9) == 0 {
				_ = n.s.Flush()
			}
		}
	}
	if undo > 0 && rnd.IntN(2) == 0 {
		step.Rollback()
	}
}

// check makes a random call on limits of a policy, and edits some.
func (n *node) check(rnd *rand.Rand, now int64) {
	if rnd.IntN(4) == 0 {
		_ = n.s.EditPolicies(func(get func(string) []byte) ([]engine.PolicyRecord, error) {
			name := fmt.Sprint("policy ", rnd.IntN(4))
			if rnd.IntN(3) == 0 {
				return []engine.PolicyRecord{{Name: name}}, nil
			}
			return []engine.PolicyRecord{{Name: name, Value: append([]byte("x"), get(name)[:min(len(get(name)), 20)]...)}}, nil
		})
	}
	checks := make([]engine.Check, 1+rnd.IntN(4))
	for i := range checks {
		key := fmt.Appendf(nil, "key:%d", 10*i+rnd.IntN(10))
		l := algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))].OfPolicy(), Limit: 1 + rnd.Int64N(30),
			Period: minute * (1 + rnd.Int64N(3)), Resets: uint16(rnd.IntN(2)), Scalings: uint16(rnd.IntN(2))}
		if rnd.IntN(6) == 0 {
			l.Algorithm, l.Period = algo.PolicyCalendar, 0
		}
		ready, err := n.e.Ready(l)
		if err != nil {
			panic(err)
		}
		defer n.e.Release(ready)
		checks[i] = engine.Check{Key: key, Hash: n.e.Table().Hash(key), Limit: ready, Cost: rnd.Int64N(4), Mode: algo.Mode(rnd.IntN(4)), CountAll: rnd.IntN(2) == 0,
			Window: &algo.Window{End: now + 1 + rnd.Int64N(2*minute), Next: now + 5*minute}}
		if rnd.IntN(2) == 0 {
			checks[i].Penalty = &engine.Penalty{After: 1 + rnd.Int64N(2), Within: minute, Block: second, Factor: 2, Max: minute}
		}
	}
	_, _ = n.s.Check(now, checks, engine.CheckOptions{}, make([]engine.Checked, len(checks)))
}

// hold reserves a random call, or settles one of those before, if it can.
func (n *node) hold(rnd *rand.Rand, now int64) {
	if rnd.IntN(2) == 0 {
		id := fmt.Appendf(nil, "hold:%d", n.held-rnd.IntN(8))
		how := engine.Settlement{State: []reservation.State{reservation.Committed, reservation.Committed, reservation.Cancelled, reservation.Released}[rnd.IntN(4)]}
		if rnd.IntN(2) == 0 {
			how.Cost = func(l *reservation.Held) (int64, bool, error) { return rnd.Int64N(2 * (l.Cost + 1)), true, nil }
		}
		_, _ = n.s.Settle(now, id, how)
		return
	}
	n.held++
	checks := make([]engine.Check, 1+rnd.IntN(3))
	for i := range checks {
		key := fmt.Appendf(nil, "key:%d", 10*i+rnd.IntN(10))
		ready, err := n.e.Ready(algo.Limit{Algorithm: eachAlgorithm[rnd.IntN(len(eachAlgorithm))].OfPolicy(), Limit: 1 + rnd.Int64N(30), Period: minute})
		if err != nil {
			panic(err)
		}
		defer n.e.Release(ready)
		checks[i] = engine.Check{Key: key, Hash: n.e.Table().Hash(key), Limit: ready, Cost: rnd.Int64N(4), Mode: algo.Mode(rnd.IntN(4)), CountAll: rnd.IntN(2) == 0}
	}
	r := engine.Reserve{Key: fmt.Appendf(nil, "hold:%d", n.held), TTL: second * (1 + rnd.Int64N(100)), Keep: minute, Charges: rnd.IntN(2) == 0, Limits: make([]reservation.Held, len(checks))}
	_, _ = n.s.Reserve(now, checks, engine.CheckOptions{}, make([]engine.Checked, len(checks)), &r)
}

// randomValue is a text or an integer, most of them short.
func randomValue(rnd *rand.Rand) []byte {
	switch rnd.IntN(40) {
	case 0:
		return bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(300_000))
	case 1, 2, 3:
		return bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(5000))
	}
	if rnd.IntN(2) == 0 {
		return fmt.Append(nil, rnd.Int64N(1000))
	}
	return bytes.Repeat([]byte("v"), rnd.IntN(40))
}

// editValue makes one visit to a value, in some kind.
func editValue(s *engine.Session, rnd *rand.Rand, now int64, key []byte) {
	kind := []algo.Algorithm{algo.Counter, algo.Hash, algo.Set, algo.SortedSet, algo.List}[rnd.IntN(5)]
	v, err := s.Open(now, key, kind)
	if err != nil {
		return
	}
	if kind != algo.Counter {
		editCollection(v, rnd, kind)
		v.Close()
		return
	}
	defer v.Close()
	for range 1 + rnd.IntN(3) {
		size := v.Len()
		switch rnd.IntN(6) {
		case 0:
			_ = v.Set(randomValue(rnd))
		case 1, 2:
			at := rnd.IntN(size + 1)
			del := rnd.IntN(size - at + 1)
			if b, err := v.Splice(at, del, len(randomValue(rnd))); err == nil {
				for i := at; i < len(b)-(size-at-del); i++ {
					b[i] = 'n'
				}
			}
		case 3:
			if b := v.Edit(); len(b) > 0 {
				b[rnd.IntN(len(b))] ^= 1
			}
		case 4:
			v.SetDeadline(now + minute*rnd.Int64N(3))
		case 5:
			if rnd.IntN(3) == 0 {
				v.Delete()
			}
		}
	}
}

// depose ends a term, as the log does.
func (n *node) depose() {
	n.r.Depose()
	n.l.Depose()
}

// cut cuts and returns a batch, or nil.
func (n *node) cut() [][]byte {
	parts, ok := n.r.Cut(512)
	if !ok {
		return nil
	}
	return parts
}

func TestFollowersBecomeEqualAndTheDeposedGoBack(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(7, seed))
		leader, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
		now := start
		leader.r.Lead(now)
		var pending []cutEntry
		cut := func() {
			leader.e.Clock().Set(now)
			if parts := leader.cut(); parts != nil {
				pending = append(pending, cutEntry{parts, leader.r.Now()})
			}
		}
		commit := func(n int) {
			for range n {
				clock := pending[0].clock
				require.NoError(t, follower.r.Apply(pending[0].parts, clock))
				pending = pending[1:]
				require.True(t, leader.l.Commit())
				leader.r.Committed(clock)
			}
		}
		for range 400 {
			now += rnd.Int64N(3 * second)
			leader.act(rnd, now)
			if rnd.IntN(5) == 0 {
				cut()
			}
			if len(pending) > 0 && rnd.IntN(6) == 0 {
				commit(1 + rnd.IntN(len(pending)))
			}
			if rnd.IntN(40) == 0 {
				leader.reap(leader.e.Passed())
				follower.reap(follower.e.Passed())
			}
		}

		// A snapshot taken now holds the committed state, and nothing else.
		var snap bytes.Buffer
		leader.e.Clock().Set(now)
		require.NoError(t, leader.r.Snapshot().Persist(&snap))
		restored := newNode(t, engine.Config{Shards: 2})
		decide := func() map[string]string { return follower.table(now + second) }
		require.NoError(t, restored.r.Restore(&snap, now))
		require.Equal(t, decide(), restored.table(now+second), "snapshot, seed %d", seed)

		if seed%2 == 0 {
			leader.depose()
			require.Equal(t, decide(), leader.table(now+second), "deposed, seed %d", seed)
			_, err := leader.s.Decide(now, []byte("k"), perMinute(algo.Token, 5), 1, &algo.Options{})
			require.ErrorIs(t, err, engine.ErrSealed)
			_, err = leader.s.Exists(now, []byte("key:1"))
			require.ErrorIs(t, err, engine.ErrSealed)
			// Batches in flight may still have been committed.
			for _, late := range pending {
				require.NoError(t, follower.r.Apply(late.parts, late.clock))
				require.NoError(t, leader.r.Apply(late.parts, late.clock))
			}
		} else {
			cut()
			commit(len(pending))
		}
		require.Equal(t, decide(), leader.table(now+second), "seed %d", seed)
	}
}

func TestTicketsCoverWhatWasDecidedBefore(t *testing.T) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	decide(t, n.s, start, "k", perMinute(algo.Token, 5), 1, algo.Options{})
	ticket := n.l.Open()
	require.NotNil(t, n.cut())
	later := n.l.Open()
	require.Greater(t, later, ticket)
	require.Nil(t, n.cut(), "nothing is dirty")
	require.Greater(t, n.l.Open(), later, "denials and peeks take a ticket too")
	n.l.Commit()
	ticket = n.l.Open()
	n.depose()
	require.Equal(t, ticket, n.deposed)
	require.Greater(t, n.l.Open(), ticket)
}

func TestUndoKeepsTheLimitsItNames(t *testing.T) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	before := algo.Limit{Limit: 77, Period: minute}
	decide(t, n.s, start, "k", before, 7, algo.Options{})
	n.cut()
	n.l.Commit()
	decide(t, n.s, start, "k", algo.Limit{Limit: 78, Period: minute}, 1, algo.Options{})
	for i := range int64(4 * engine.CollectAt) {
		decide(t, n.s, start, "other", algo.Limit{Limit: 1000 + i, Period: minute}, 0, algo.Options{})
		if i%engine.CollectAt == 0 {
			n.e.CollectLimits()
		}
	}
	n.depose()
	n.r.Lead(start)
	x, ok, _ := n.s.Explain(start, []byte("k"))
	require.True(t, ok)
	require.Equal(t, before, x.Limit)
	require.Equal(t, int64(7), x.Used)
}

// deposing deposes n in another goroutine and returns once it is about to undo.
// The shard that the caller has locked, and those after it, wait for unlock.
func (n *node) deposing(t *testing.T) (deposed <-chan struct{}) {
	done := make(chan struct{})
	go func() { n.depose(); close(done) }()
	require.Eventually(t, n.r.Deposing, 10*time.Second, time.Millisecond)
	return done
}

func TestSnapshotWhileDeposing(t *testing.T) {
	n, restored := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{})
	n.r.Lead(start)
	n.e.Clock().Set(start)
	charge := func(cost int64) {
		for i := range 40 {
			decide(t, n.s, start, fmt.Sprint("k", i), perMinute(algo.Fixed, 100), cost, algo.Options{})
		}
	}
	charge(1)
	n.cut()
	n.l.Commit()
	committed := n.table(start)
	charge(50)
	n.cut()

	const held = 1
	n.e.Table().Shard(held).Lock()
	deposed := n.deposing(t)
	persist := func(i int) {
		require.NoError(t, restored.r.Apply(n.r.CommittedOf(i, start), start))
	}
	for i := range n.e.Table().Shards() {
		if i != held {
			persist(i)
		}
	}
	n.e.Table().Shard(held).Unlock()
	<-deposed
	persist(held)
	require.Equal(t, committed, n.table(start))
	require.Equal(t, committed, restored.table(start))
	require.Zero(t, n.r.LimitsInUndo())
}

// Limits that only undo records name are not forgotten while Depose restores
// the keys that had them.
func TestCollectingWhileDeposing(t *testing.T) {
	for range 8 {
		n := newNode(t, engine.Config{Shards: 16})
		n.r.Lead(start)
		const keys = 1000
		for i := range int64(keys) {
			decide(t, n.s, start, fmt.Sprint("k", i), numbered(i), 1, algo.Options{})
		}
		n.cut()
		n.l.Commit()
		before := n.table(start)
		for i := range int64(keys) {
			decide(t, n.s, start, fmt.Sprint("k", i), numbered(keys), 1, algo.Options{Force: true})
		}
		n.cut()
		n.e.Table().Shard(0).Lock()
		deposed := n.deposing(t)
		collected := make(chan struct{})
		go func() {
			defer close(collected)
			for {
				n.e.CollectLimits()
				select {
				case <-deposed:
					return
				default:
				}
			}
		}()
		n.e.Table().Shard(0).Unlock()
		<-collected
		require.Equal(t, before, n.table(start))
	}
}

// named are limits by their ids.
type named []algo.Limit

func (n named) LimitOf(id uint32) *algo.Limit { return &n[id] }

func FuzzDecodeEffects(f *testing.F) {
	limits := named{perMinute(algo.Sliding, 5), perMinute(algo.Log, 5)}
	enc := effects.NewEncoder(limits, effects.FirstFormats, 1<<10, 0)
	enc.Put(shard.Image{Key: []byte("k"), Meta: 0, Deadline: start, State: make([]byte, 16)})
	enc.Remove(0, []byte("gone"))
	f.Add(enc.Finish()[0])
	enc.Put(shard.Image{Key: []byte("list"), Meta: 1, Deadline: start, State: make([]byte, 80)})
	enc.Flush()
	f.Add(enc.Finish()[1])
	enc.Add(shard.Image{Key: []byte("list"), Meta: 1, Deadline: start, State: make([]byte, 80)}, &effects.Delta{Base: make([]byte, effects.BaseSize), Difference: []byte{80, 0, 80, 0}})
	enc.Included(start)
	f.Add(enc.Finish()[2])
	system := effects.NewEncoder(limits, effects.FirstFormats, 1<<10, 0)
	system.Flush()
	system.System(effects.SystemKey{Kind: effects.SystemCharged, Name: "n"}, []byte("v"))
	f.Add(system.Finish()[0])
	f.Fuzz(func(t *testing.T, payload []byte) {
		n := newNode(t, engine.Config{Shards: 1})
		_ = n.r.Apply([][]byte{payload}, start)
	})
}

func TestOnlyATableThatDecidesIsBounded(t *testing.T) {
	n := newNode(t, engine.Config{MaxBytes: 1 << 20})
	require.Zero(t, n.e.Stats().MaxBytes)
	n.e.SetMemory(2<<20, true)
	require.Zero(t, n.e.Stats().MaxBytes, "a follower never evicts")
	n.r.Lead(start)
	require.Equal(t, int64(2<<20), n.e.Stats().MaxBytes)
	n.depose()
	require.Zero(t, n.e.Stats().MaxBytes)
}
