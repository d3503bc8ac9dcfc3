package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// commands flushes all keys, and then kills leaders, under a load of every command that changes state. What a counter
// models is judged exactly, the rest by bounds; transactions are all or nothing at every moment.
func commands(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := mixed(r.Rate)
	l := r.offer(keys, 3, r.dial, mixedCalls(keys))
	stop := make(chan struct{})
	var audits pairAudit
	var wg sync.WaitGroup
	wg.Go(func() { audits.run(r, keys, stop) })
	r.wait(2 * time.Second)
	flushed, err := r.flushAll()
	if err == nil {
		err = r.rounds(func() error {
			n, err := r.leader()
			if err != nil {
				return err
			}
			return r.killAndRestart(n)
		})
	}
	close(stop)
	wg.Wait()
	r.stop(l, keys)
	r.forget(flushed)
	if err == nil {
		err = r.settle()
	}
	if err == nil {
		err = audits.last(r, flushed)
	}
	r.judge()
	r.expect(audits.wrong == 0 && audits.done > 0, "transactions", "%d audits, %d of halves of a transaction; %s", audits.done, audits.wrong, audits.text)
	return err
}

// flushAll deletes all keys under load. The call's times are those of the whole flush.
func (r *Run) flushAll() (history.Call, error) {
	n, err := r.leader()
	if err != nil {
		return history.Call{}, err
	}
	r.note("flush all keys")
	c := history.Call{Kind: history.Reset, Start: r.now(), Outcome: history.Admitted, Node: uint8(n.Index)}
	_, err = r.once(n, "FLUSHALL")
	c.End = r.now()
	r.note("flushed")
	return c, err
}

// forget adds a flush to the history: a reset of every key that was called before it ended. Which of a key's calls came
// before it only a model of the whole history can tell.
func (r *Run) forget(flush history.Call) {
	h := &r.history
	called := make([]bool, len(h.Keys))
	for i := range h.Calls {
		if c := &h.Calls[i]; c.Start <= flush.End && !c.Kind.Double() {
			called[c.Key] = true
		}
	}
	var rec history.Recorder
	for k := range called {
		if called[k] {
			flush.Key = uint32(k)
			flush.Due = flush.Start
			rec.Add(flush)
			h.Keys[k].Free = true
		}
	}
	h.Merge(&rec)
}

// pairAudit reads keys that only transactions change.
type pairAudit struct {
	done, wrong int
	text        string
}

// run reads one pair after the other, on one connection as long as that lasts: half of a transaction shows for some
// microseconds.
func (a *pairAudit) run(r *Run, keys *load.Keyspace, stop chan struct{}) {
	var p *pairReader
	for i := 0; ; i++ {
		select {
		case <-stop:
			if p != nil {
				p.nc.Close()
			}
			return
		case <-time.After(500 * time.Microsecond):
		}
		if p == nil {
			p, _ = dialPairs(r.cluster.Nodes[i%3].Addr) // a node that is down says nothing
			continue
		}
		place := len(kinds)*ofKind + i%2*2*(i%pairs/2) // the first pair, which is used most, half of the time
		id := keys.At(place, time.Duration(r.now()))
		one, two, err := p.read(keys.Key(id).Name, keys.Key(id+1).Name)
		if err != nil {
			p.nc.Close()
			p = nil
			continue
		}
		a.done++
		if one != two {
			a.wrong++
			a.text = fmt.Sprintf("%s and its pair: %d, %d", keys.Key(id).Name, one, two)
		}
	}
}

// last compares the sums of the pairs that no flush has touched with what clients were answered.
func (a *pairAudit) last(r *Run, flush history.Call) error {
	type sums struct{ other, seen, open int64 }
	byKey := make(map[uint32]*sums)
	before := make(map[uint32]bool)
	for i := range r.history.Calls {
		c := &r.history.Calls[i]
		if c.Kind != history.Pair {
			continue
		}
		s := byKey[c.Key]
		if s == nil {
			s = &sums{other: int64(c.Other)}
			byKey[c.Key] = s
		}
		switch c.Outcome {
		case history.Admitted:
			s.seen++
		case history.Unknown:
			s.open++
		}
		before[c.Key] = before[c.Key] || c.Start <= flush.End
	}
	n, err := r.leader()
	if err != nil {
		return err
	}
	p, err := dialPairs(n.Addr)
	if err != nil {
		return err
	}
	defer p.nc.Close()
	checked := 0
	for k, s := range byKey {
		if before[k] {
			continue
		}
		one, two, err := p.read(r.history.Keys[k].Name, r.history.Keys[s.other].Name)
		if err != nil {
			return err
		}
		checked++
		if one != two || one > s.seen+s.open || one < s.seen && r.Mode == Sync {
			a.wrong++
			a.text = fmt.Sprintf("%s: %d and %d, of %d answered and %d not", r.history.Keys[k].Name, one, two, s.seen, s.open)
		}
	}
	a.done += checked
	return nil
}

// pairReader reads two counters in one transaction.
type pairReader struct {
	nc net.Conn
	in *bufio.Reader
}

func dialPairs(addr string) (*pairReader, error) {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	return &pairReader{nc, bufio.NewReader(nc)}, nil
}

func (p *pairReader) read(one, two string) (int64, int64, error) {
	p.nc.SetDeadline(time.Now().Add(patience))
	if _, err := p.nc.Write(load.Encode(nil, &history.Call{Kind: history.Pair}, history.Key{Name: one}, history.Key{Name: two})); err != nil {
		return 0, 0, err
	}
	var reply resp.Reply
	var err error
	for range load.Between + 4 {
		if reply, err = respclient.Read(p.in); err != nil {
			return 0, 0, err
		}
	}
	last := len(reply.Elems) - 1
	if last != load.Between+1 || len(reply.Elems[0].Elems) != 2 || len(reply.Elems[last].Elems) != 2 {
		return 0, 0, errors.New(reply.Error())
	}
	return reply.Elems[0].Elems[0].Int, reply.Elems[last].Elems[0].Int, nil
}
