package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
)

// dataKinds are limits that are kept in values of Redis's types: by commands that count, and by scripts. They are judged as
// any other limit of their algorithm is.
var dataKinds = []history.Key{
	{Algorithm: history.Fixed, Command: "INCR"},
	{Algorithm: history.Fixed, Command: "INCRBY EXPIRE"},
	{Algorithm: history.Fixed, Command: "INCR PEXPIRE", Period: 2 * time.Second},
	{Algorithm: history.Fixed, Command: "APPEND"},
	{Algorithm: history.Fixed, Command: "HINCRBY"},
	{Algorithm: history.Fixed, Command: "HSET HLEN"},
	{Algorithm: history.Fixed, Command: "ZINCRBY"},
	{Algorithm: history.Fixed, Command: "ZADD ZCARD"},
	{Algorithm: history.Fixed, Command: "RPUSH"},
	{Algorithm: history.Fixed, Command: "SADD SCARD"},
	{Algorithm: history.Fixed, Command: "EVALSHA window"},
	{Algorithm: history.Fixed, Command: "EVALSHA window", Period: 2 * time.Second},
	{Algorithm: history.Token, Command: "EVALSHA bucket"},
	{Algorithm: history.Token, Command: "EVALSHA bucket", Period: 4 * time.Second},
	{Algorithm: history.Log, Command: "EVALSHA log"},
	{Algorithm: history.Log, Command: "EVALSHA log", Period: 2 * time.Second},
	{Algorithm: history.Log, Command: "EVALSHA list", Period: 2 * time.Second},
	{Algorithm: history.Fixed, Command: "INCR", Free: true},
	{Algorithm: history.Fixed, Command: "HINCRBY", Free: true},
	{Algorithm: history.Fixed, Command: "ZADD ZCARD", Free: true},
	{Algorithm: history.Fixed, Command: "EVALSHA window", Free: true},
}

// amount is how much of a load is about data.
type amount struct {
	// rate is the most calls in a second on keys of dataKinds. A script costs as much as a few other calls, and so does
	// the replication of a long value. pairRate is the rate of calls on pairs: a transaction of them has many commands.
	rate, pairRate float64

	audit time.Duration // from one audit of pairs to the next

	// checkRate is the rate of checks of policies, and waitRate of checks that wait for their commit.
	checkRate, waitRate float64

	// apart: they have connections of their own, and how soon they are answered is judged apart. A node that waits for
	// a silent leader waits longer for a script than for a limit, and what follows on the connection waits as well.
	// Scripts and other commands travel to the leader one after the other.
	apart bool
}

var (
	// much is for harm that breaks connections to the leader, and audited for a run that is about pairs.
	much    = amount{rate: 400, pairRate: 60, audit: 10 * time.Millisecond, checkRate: 100, waitRate: 40}
	audited = amount{rate: 400, pairRate: 240, audit: 500 * time.Microsecond, checkRate: 100, waitRate: 40} // half of a transaction shows for some microseconds
	// little is for harm that leaves leaders silent, slow or without followers, and that is not about what data are.
	little = amount{rate: 60, pairRate: 6, audit: 50 * time.Millisecond, checkRate: 50, waitRate: 16, apart: true}
)

const (
	// dataShare and pairShare are the most that calls about data and about pairs are of all.
	dataShare = 0.2
	pairShare = 0.08
	// slowOneIn is how many calls there are of scripts that can be slow for one that is: the others of its connection wait.
	slowOneIn = 16
	// hotPlace is the first place of the window script. One call in hotOneIn is about it, so often that something comes
	// between the read and the write of a slow call.
	hotPlace, hotOneIn = 10, 8
	// ofDataKind is how many places each of dataKinds has.
	ofDataKind = 2

	// pairs are keys that are changed only together with the next one, by transactions and by scripts; they come after those
	// of dataKinds.
	pairs = 16
)

// data are keys with values of Redis's types in a keyspace.
type data struct {
	keys  *load.Keyspace
	first int // place of dataKinds
	pairs int // first place of the pairs

	rate, pairRate float64 // calls per second
}

// addData adds an amount of them to a keyspace that is offered so many calls per second.
func addData(keys *load.Keyspace, rate float64, a amount) *data {
	d := &data{keys: keys, rate: min(rate*dataShare, a.rate), pairRate: min(rate*pairShare, a.pairRate)}
	perKey := d.rate / float64(len(dataKinds)*ofDataKind) * keys.Life.Seconds()
	d.first = keys.Add(len(dataKinds)*ofDataKind, func(place, generation int) history.Key {
		k := dataKinds[place%len(dataKinds)]
		k.Apart = a.apart
		k.Name = fmt.Sprintf("%s:%d:%d", strings.ReplaceAll(strings.ToLower(k.Command), " ", "-"), place, generation)
		if place == hotPlace {
			return sized(k, d.rate/hotOneIn*keys.Life.Seconds())
		}
		return sized(k, perKey)
	})
	d.pairs = keys.Add(pairs, func(place, generation int) history.Key {
		// Both keys of a pair have one slot: a transaction has a single group.
		k := history.Key{Name: fmt.Sprintf("pair%d:{%d:%d}", place, place/2, generation), Algorithm: history.Fixed, Free: true, Period: never, Apart: a.apart}
		if place/2%2 == 1 {
			k.Command = "EVALSHA pair"
		}
		return k
	})
	return d
}

// sized gives a kind of key a limit that is used up by about half of the calls that it gets.
func sized(k history.Key, perKey float64) history.Key {
	k.Limit = int32(max(4, perKey*0.7))
	switch {
	case k.Period > 0:
		k.Limit = max(2, k.Limit/4)
	case k.Algorithm == history.Token || k.Algorithm == history.Leaky:
		k.Period = never * time.Duration(k.Limit)
	default:
		k.Period = never
	}
	return k
}

// mix plans, of so many calls per second, those on the data, and leaves to next the others.
func (d *data) mix(rate float64, next plan) plan {
	return func(conn int, rnd *rand.Rand, due time.Duration) history.Call {
		switch n := rnd.Float64() * rate; {
		case n < d.rate:
			return d.call(rnd, due)
		case n < d.rate+d.pairRate:
			return d.pair(rnd, due)
		}
		return next(conn, rnd, due)
	}
}

// all plans calls on the data only.
func (d *data) all(_ int, rnd *rand.Rand, due time.Duration) history.Call {
	if rnd.Float64()*(d.rate+d.pairRate) < d.pairRate {
		return d.pair(rnd, due)
	}
	return d.call(rnd, due)
}

// call plans a call on a key of dataKinds.
func (d *data) call(rnd *rand.Rand, due time.Duration) history.Call {
	place := rnd.IntN(len(dataKinds) * ofDataKind)
	if rnd.IntN(hotOneIn) == 0 {
		place = hotPlace
	}
	c := history.Call{Key: d.keys.At(d.first+place, due), Cost: 1}
	k := d.keys.Key(c.Key)
	c.Limit = k.Limit
	script := strings.HasPrefix(k.Command, "EVALSHA")
	switch n := rnd.IntN(100); {
	case n < 10:
		c.Cost = 0
	case k.Free && n < 14:
		c.Kind, c.Cost, c.Limit, c.Other = history.Reset, 0, 0, rnd.Uint32N(3)
	case script && n < 30:
		c.Cost = 2
	case script && k.Free && n < 45:
		c.Cost = -1 - rnd.Int32N(2)
	case script && k.Free && n < 55:
		c.Limit *= 2
	}
	c.Slow = k.Command == "EVALSHA window" && rnd.IntN(slowOneIn) == 0
	return c
}

// pair plans a step that changes two keys. Half of the steps are about the first two pairs, so that audits of those
// have something to see.
func (d *data) pair(rnd *rand.Rand, due time.Duration) history.Call {
	n := rnd.IntN(pairs / 2)
	if rnd.IntN(2) == 0 {
		n = rnd.IntN(2)
	}
	c := d.pairCall(n, due)
	c.Slow = rnd.IntN(slowOneIn) == 0 // a transaction is as it is
	return c
}

func (d *data) pairCall(n int, due time.Duration) history.Call {
	id := d.keys.At(d.pairs+2*n, due)
	return history.Call{Kind: history.Pair, Key: id, Other: id + 1, Cost: 1}
}

// offerData is offer with an amount of data and of checks of policies in the load, and with billers. Until finish the
// pairs of the data are audited and the policies are edited.
func (r *Run) offerData(a amount, keys *load.Keyspace, nodes int, dial func(int) string, next plan) (*load.Load, error) {
	if r.cluster != nil {
		if err := r.raised(); err != nil { // before that there is no data but counters
			return nil, err
		}
	}
	first := &cluster.Node{Process: &cluster.Process{Name: "the first node", Addr: dial(0)}}
	for _, text := range load.Scripts() {
		if _, err := r.do(first, "SCRIPT", "LOAD", text); err != nil {
			return nil, err
		}
	}
	// What it answers to a script whose keys others keep changing, which has changed nothing.
	r.codesToo = append(r.codesToo, "BUSY")
	r.data = addData(keys, r.Rate, a)
	r.checks = addChecks(keys, a)
	if err := r.startEditor(nodes, dial); err != nil {
		return nil, err
	}
	if err := r.startBills(cmp.Or(r.billers, fewBillers), nodes, dial); err != nil {
		return nil, err
	}
	if r.cluster != nil {
		if err := r.startGateways(nodes, dial, false); err != nil {
			return nil, err
		}
	}
	r.audits = startPairAudit(r, nodes, dial, a.audit)
	next = r.checks.mix(r.Rate, next)
	waiting := r.calls(keys, nodes, dial, r.checks.later)
	waiting.Rate, waiting.Seed = r.checks.waiting, r.Seed+2
	if !a.apart {
		return r.offer(keys, nodes, dial, r.data.mix(r.Rate, next), waiting), nil
	}
	aside := r.calls(keys, nodes, dial, r.data.all)
	aside.Rate, aside.Seed = r.data.rate+r.data.pairRate, r.Seed+1
	return r.offer(keys, nodes, dial, next, aside, waiting), nil
}

// decidedApart is the least share of the calls on data that are apart which must be decided: without answers nothing can be
// wrong with them.
const decidedApart = 0.3

// judgeApart looks whether enough of the calls that are apart were decided.
func (r *Run) judgeApart() {
	calls, decided := 0, 0
	for i := range r.history.Calls {
		if c := &r.history.Calls[i]; r.history.Apart(c) && c.Kind != history.Check {
			calls++
			if c.Decided() {
				decided++
			}
		}
	}
	if calls > 0 {
		r.expect(float64(decided) >= decidedApart*float64(calls), "data", "%d of %d calls on data were decided, on connections of their own", decided, calls)
	}
}

// readData looks in the end at what is left of the data, and at the counters of policies. addr is the leader's.
func (r *Run) readData(addr string) error {
	return errors.Join(r.audits.last(addr), r.readBack(addr), r.readCounters(addr), r.readBills(addr), r.readGateways(addr), r.readPolicies())
}

// readBack reads the data once more when nothing is offered any longer, as calls of the history: what was acknowledged must
// be there.
func (r *Run) readBack(addr string) error {
	read := make(map[uint32]bool)
	var calls []history.Call
	for i := range r.history.Calls {
		c := &r.history.Calls[i]
		if place := int(c.Key) % r.data.keys.Places; place < r.data.first || place >= r.data.pairs || read[c.Key] {
			continue
		}
		read[c.Key] = true
		if k := &r.history.Keys[c.Key]; k.Static(r.history.Length) {
			calls = append(calls, history.Call{Key: c.Key, Limit: k.Limit})
		}
	}
	if err := load.Ask(addr, load.Config{Epoch: r.epoch, Timeout: patience, Key: r.key}, calls); err != nil {
		return fmt.Errorf("read the data back: %w", err)
	}
	var rec history.Recorder
	for _, c := range calls {
		rec.Add(c)
	}
	r.history.Merge(&rec)
	// What has come back by now may have been read.
	r.history.Length = time.Since(r.epoch)
	return nil
}

// key describes the key of a call in the history.
func (r *Run) key(c *history.Call) history.Key { return r.history.Keys[c.Key] }
