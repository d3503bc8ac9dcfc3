package server

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/server/command"
)

const (
	// memoryStep is the change of a connection's memory that is worth an
	// addition to the total.
	memoryStep = 4 << 10
	// memoryPause is the least time between two looks for connections to
	// close: those that have been closed give their memory back meanwhile.
	memoryPause = 10 * time.Millisecond
	// memoryLogInterval is the least time between two log lines.
	memoryLogInterval = 10 * time.Second
)

// clientMemory bounds what the connections' buffers take together: input that
// has not run, replies that have not been read, transactions, watched keys,
// subscriptions. Above Runtime.ClientMemory those with the most are closed,
// those that asked CLIENT NO-EVICT last.
type clientMemory struct {
	total atomic.Int64
	over  chan struct{} // capacity 1: the total may be above the bound
}

// weigh brings what is accounted of c up to date. The driver calls it when it
// has settled c, or let go of it.
func (c *conn) weigh() {
	n := cap(c.in) + c.parser.Held() + cap(c.held) + c.pending + c.watched.size + int(c.pushed.Load())
	if c.tx != nil {
		n += c.tx.size
	}
	if c.subs != nil {
		n += c.subs.size
	}
	if c.closed {
		n = 0
	}
	d := int64(n) - c.memory.Load()
	if -memoryStep < d && d < memoryStep && !c.closed {
		return
	}
	c.memory.Store(int64(n))
	m := &c.srv.memory
	total := m.total.Add(d)
	if most := c.srv.runtime.Load().ClientMemory; d > 0 && most > 0 && total > most {
		select {
		case m.over <- struct{}{}:
		default:
		}
	}
}

// run closes connections until stop is closed.
func (m *clientMemory) run(s *Server) {
	var logged time.Time
	for {
		select {
		case <-s.end:
			return
		case <-m.over:
		}
		if n, freed := m.relieve(s); n > 0 && time.Since(logged) > memoryLogInterval {
			logged = time.Now()
			s.log.Warn("clients closed: their buffers took more than maxmemory-clients", "clients", n, "bytes", freed)
		}
		select {
		case <-s.end:
			return
		case <-time.After(memoryPause):
		}
	}
}

// relieve closes as many connections as it takes, and returns how many, and
// what they held.
func (m *clientMemory) relieve(s *Server) (n int, freed int64) {
	most := s.runtime.Load().ClientMemory
	excess := m.total.Load() - most
	if most <= 0 || excess <= 0 { // the bound may have gone meanwhile
		return 0, 0
	}
	all := s.connections()
	weight := make(map[*conn]int64, len(all)) // a moment's: they go on changing
	for _, c := range all {
		weight[c] = c.memory.Load()
	}
	slices.SortFunc(all, func(a, b *conn) int {
		x, y := a.meta.Load().noEvict, b.meta.Load().noEvict
		return cmp.Or(cmp.Compare(command.Truth(x), command.Truth(y)), cmp.Compare(weight[b], weight[a]))
	})
	for _, c := range all {
		if freed > excess {
			break
		}
		n++
		freed += weight[c]
		c.post(func() {
			if !c.killed { // nor by the look before, which it has not followed yet
				s.stats.counts[countMemoryKills].Add(1)
				c.kill()
			}
		})
	}
	return n, freed
}
