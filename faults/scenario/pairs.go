package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// pairAudit reads keys that only transactions and scripts change, two at a time, while they do: both must have changed, or
// neither.
type pairAudit struct {
	r     *Run
	every time.Duration
	quit  chan struct{}
	wg    sync.WaitGroup

	// What was found; only after stop.
	done, wrong int
	text        string
}

// startPairAudit begins to audit the pairs of the run's data, one every so often, on nodes that dial tells the addresses of.
func startPairAudit(r *Run, nodes int, dial func(int) string, every time.Duration) *pairAudit {
	a := &pairAudit{r: r, every: every, quit: make(chan struct{})}
	a.wg.Go(func() { a.run(nodes, dial) })
	return a
}

// stop ends the audits; nil has none.
func (a *pairAudit) stop() {
	if a != nil {
		close(a.quit)
		a.wg.Wait()
	}
}

// run reads one pair after the other, on one connection as long as that lasts.
func (a *pairAudit) run(nodes int, dial func(int) string) {
	var p *pairReader
	for i := 0; ; i++ {
		select {
		case <-a.quit:
			if p != nil {
				p.nc.Close()
			}
			return
		case <-time.After(a.every):
		}
		if p == nil {
			p, _ = dialPairs(dial(i % nodes)) // a node that is down says nothing
			continue
		}
		n := i % 2 // the first two, which are used most, half of the time
		if i%4 >= 2 {
			n = i / 4 % (pairs / 2)
		}
		c := a.r.data.pairCall(n, time.Duration(a.r.now()))
		key, other := a.r.data.keys.Key(c.Key), a.r.data.keys.Key(c.Other)
		one, two, err := p.read(key, other)
		if err != nil {
			p.nc.Close()
			p = nil
			continue
		}
		a.done++
		if one != two {
			a.wrong++
			a.text = fmt.Sprintf("%s and its pair: %d, %d", key.Name, one, two)
		}
	}
}

// last compares the sums of the pairs that no flush has touched with what clients were answered; addr is the leader's.
func (a *pairAudit) last(addr string) error {
	type sums struct {
		other      uint32
		seen, open int64
		flushed    bool
	}
	byKey := make(map[uint32]*sums)
	for i := range a.r.history.Calls {
		c := &a.r.history.Calls[i]
		if c.Kind != history.Pair {
			continue
		}
		s := byKey[c.Key]
		if s == nil {
			s = &sums{other: c.Other}
			byKey[c.Key] = s
		}
		switch c.Outcome {
		case history.Admitted:
			s.seen++
		case history.Unknown:
			s.open++
		}
		s.flushed = s.flushed || c.Start <= a.r.flushed.End
	}
	p, err := dialPairs(addr)
	if err != nil {
		return err
	}
	defer p.nc.Close()
	for k, s := range byKey {
		if s.flushed {
			continue
		}
		key, other := a.r.history.Keys[k], a.r.history.Keys[s.other]
		one, two, err := p.read(key, other)
		if err != nil {
			return fmt.Errorf("read %s: %w", key.Name, err)
		}
		a.done++
		if one != two || one > s.seen+s.open || one < s.seen && a.r.Mode == Sync {
			a.wrong++
			a.text = fmt.Sprintf("%s: %d and %d, of %d answered and %d not", key.Name, one, two, s.seen, s.open)
		}
	}
	return nil
}

// pairReader reads two keys in one step, as their calls change them.
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

func (p *pairReader) read(key, other history.Key) (one, two int64, err error) {
	p.nc.SetDeadline(time.Now().Add(patience))
	look := history.Call{Kind: history.Pair}
	if _, err := p.nc.Write(load.Encode(nil, &look, key, other)); err != nil {
		return 0, 0, err
	}
	var reply resp.Reply
	for range load.Preceding(&look, key) + 1 {
		if reply, err = respclient.Read(p.in); err != nil {
			return 0, 0, err
		}
	}
	if len(reply.Elems) < 2 {
		return 0, 0, errors.New(reply.Error())
	}
	first, last := reply.Elems[0], reply.Elems[len(reply.Elems)-1]
	if first.Type == ':' && last.Type == ':' { // of a script
		return first.Int, last.Int, nil
	}
	if len(reply.Elems) != load.Between+2 || len(first.Elems) != 2 || len(last.Elems) != 2 {
		return 0, 0, fmt.Errorf("a reply of %d elements", len(reply.Elems))
	}
	return first.Elems[0].Int, last.Elems[0].Int, nil
}
