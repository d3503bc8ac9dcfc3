package server

import (
	"cmp"
	"errors"
	"slices"
	"sync"
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
	// memoryGiven is how much memory has to be given back until the system gets
	// it, in bytes.
	memoryGiven = 16 << 20
)

// clientMemory is the one account of what clients take outside of the table:
// input that has not run, transactions, watched keys, subscriptions, running
// scripts and other jobs, replies that are written or wait, messages to
// subscribers, batches of HTTP. Runtime.ClientMemory bounds it.
//
// What is large is reserved before it is allocated; what else a connection holds
// is weighed when it settles. Above the bound those who hold most lose it:
// a job is ended, a connection is closed, those that asked CLIENT NO-EVICT last.
// That takes milliseconds. Until then reserve lends a quarter of the bound, and
// refuses what does not fit into that. A connection's own thread cannot wait and has
// no error to answer: of a small bound borrow lends it as much again.
type clientMemory struct {
	srv   *Server
	total atomic.Int64
	given atomic.Int64  // since the scavenger was asked last
	over  chan struct{} // capacity 1: the total may be above the bound
	looks uint32        // of relieve

	mu   sync.Mutex
	jobs map[*spending]struct{} // guarded by mu
}

// errClientMemory is what a client is answered for whose command there is no room.
var errClientMemory = errors.New("all clients together take more memory than maxmemory-clients, try again later")

// bound is how much may be taken; 0 is no bound.
func (m *clientMemory) bound() int64 { return m.srv.runtime.Load().ClientMemory }

// add notes that n bytes have been taken, or, where n is negative, given back.
func (m *clientMemory) add(n int64) {
	total := m.total.Add(n)
	if n < 0 {
		if m.given.Add(-n) >= memoryGiven {
			m.given.Store(0)
			m.srv.scavenger.ask()
		}
		return
	}
	if most := m.bound(); most > 0 && total > most {
		select {
		case m.over <- struct{}{}:
		default:
		}
	}
}

// reserve takes n bytes that are about to be allocated, or returns false.
func (m *clientMemory) reserve(n int64) bool { return m.within(n, m.bound()/4) }

// borrowed is what borrow lends of a small bound: more than the loops write while it
// is looked for connections to close.
const borrowed = 64 << 20

// borrow is reserve for what a connection's own thread writes or reads.
func (m *clientMemory) borrow(n int64) bool {
	most := m.bound()
	return m.within(n, max(most/4, min(most, borrowed)))
}

// within is reserve that lends so many bytes.
func (m *clientMemory) within(n, lent int64) bool {
	m.add(n)
	if most := m.bound(); most > 0 && m.total.Load() > most+lent {
		m.total.Add(-n)
		return false
	}
	return true
}

// TakeMemory takes n bytes of what clients may take outside of the table, for
// another front, or returns false if there are not so many. Where n is negative it
// gives them back.
func (s *Server) TakeMemory(n int) bool {
	m := &s.memory
	if n <= 0 {
		m.add(int64(n))
		return true
	}
	total := m.total.Add(int64(n)) // nobody is closed for it
	if most := m.bound(); most > 0 && total > most {
		m.total.Add(-int64(n))
		return false
	}
	return true
}

// spending is what a job of a connection has taken of the account until it
// ends, whether the connection is still there or not.
type spending struct {
	memory *clientMemory
	of     *conn // nil for what is over within a batch
	taken  atomic.Int64
	ended  atomic.Bool // it gets no more, and is to end

	// Of a job of workers, nil for others.
	run     atomic.Pointer[func(x *turn)] // nil once it has begun, or has been dropped
	dropped func()                        // replies in its place
	reads   bool                          // it changes nothing
}

// begin runs the job, unless it has been dropped.
func (p *spending) begin(x *turn) {
	if run := p.run.Swap(nil); run != nil {
		(*run)(x)
	}
}

// drop drops the job, if it has not begun, with all that it holds on to.
func (p *spending) drop() {
	if p.run.Swap(nil) != nil {
		p.dropped()
	}
}

// abandon reports whether nobody waits for the reply. A job that has begun goes on if it
// may change something, as in Redis.
func (p *spending) abandon() {
	p.drop()
	if p.reads {
		p.ended.Store(true)
	}
}

// spend begins the spending of a job.
func (m *clientMemory) spend(of *conn) *spending {
	p := &spending{memory: m, of: of}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs == nil {
		m.jobs = make(map[*spending]struct{})
	}
	m.jobs[p] = struct{}{}
	return p
}

// take takes n bytes that are about to be allocated, or returns false.
func (p *spending) take(n int) bool {
	if p.ended.Load() || !p.memory.reserve(int64(n)) {
		return false
	}
	p.taken.Add(int64(n))
	return true
}

// room is take for a resp.Writer.
func (p *spending) room(n, _ int) bool { return p.take(n) }

// give gives n bytes back.
func (p *spending) give(n int) {
	p.taken.Add(-int64(n))
	p.memory.add(-int64(n))
}

// handTo has c hold what the job has taken, until c is weighed.
func (p *spending) handTo(c *conn) { c.memory.Add(p.taken.Swap(0)) }

// end gives all back.
func (p *spending) end() {
	if n := p.taken.Swap(0); n != 0 {
		p.memory.add(-n)
	}
	if p.of != nil {
		p.memory.mu.Lock()
		defer p.memory.mu.Unlock()
		delete(p.memory.jobs, p)
	}
}

// weigh brings what is accounted of c up to date. The driver calls it when it
// has settled c, or let go of it.
func (c *conn) weigh() {
	n := cap(c.in) + c.parser.Held() + cap(c.held) + cap(c.segments)*segmentSize + c.output + c.sent + c.watched.size
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
	c.srv.memory.add(d)
}

// reserve takes n bytes that c is about to allocate for input, which the next weigh
// finds, or closes c.
func (c *conn) reserve(n int) bool {
	if !c.srv.memory.borrow(int64(n)) {
		c.killForMemory()
		return false
	}
	c.memory.Add(int64(n))
	return true
}

func (c *conn) killForMemory() {
	if !c.killed { // nor by a look before, which it has not followed yet
		c.srv.stats.counts[countMemoryKills].Add(1)
		c.kill()
	}
}

// run closes connections until the server ends.
func (m *clientMemory) run(s *Server) {
	var logged time.Time
	for {
		select {
		case <-s.end:
			return
		case <-m.over:
		}
		for pause := memoryPause; ; {
			n, freed := m.relieve(s)
			if freed == 0 {
				break
			}
			if n > 0 && time.Since(logged) > memoryLogInterval {
				logged = time.Now()
				s.log.Warn("clients closed, or their commands ended: all clients together took more than maxmemory-clients", "clients", n, "bytes", freed)
			}
			if !rests(s.end, pause) {
				return
			}
			if n > 0 {
				pause = memoryPause
			} else { // those before have not ended yet
				pause = min(2*pause, time.Second)
			}
		}
	}
}

// holder is who holds memory, a connection or a job of it, as relieve has found
// it: it goes on changing.
type holder struct {
	c       *conn
	job     *spending // nil for what the connection itself holds
	noEvict bool
	weight  int64 // messages that others hold too included
}

// holders returns who holds memory, in the order in which they lose it, and how
// much is about to be given back already.
func (m *clientMemory) holders(s *Server) (all []holder, ending int64) {
	for _, c := range s.connections() {
		if weight := c.memory.Load() + c.inbox.size.Load(); weight >= memoryStep {
			all = append(all, holder{c, nil, c.meta.Load().noEvict, weight})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for job := range m.jobs {
		if taken := job.taken.Load(); job.ended.Load() {
			ending += taken
		} else if taken > 0 {
			all = append(all, holder{job.of, job, job.of.meta.Load().noEvict, taken})
		}
	}
	slices.SortFunc(all, func(a, b holder) int {
		return cmp.Or(cmp.Compare(command.Truth(a.noEvict), command.Truth(b.noEvict)), cmp.Compare(b.weight, a.weight))
	})
	return all, ending
}

// relieve closes as many connections as it takes, or ends their jobs, and returns
// how many, and what is given back soon, by them and by those before.
func (m *clientMemory) relieve(s *Server) (n int, freed int64) {
	most := m.bound()
	excess := m.total.Load() - most
	if most <= 0 || excess <= 0 { // the bound may have gone meanwhile
		return 0, 0
	}
	all, freed := m.holders(s)
	m.looks++
	for _, h := range all {
		if freed > excess {
			break
		}
		n++
		if h.job != nil {
			h.job.ended.Store(true)
			h.job.drop()
			freed += h.weight
			continue
		}
		freed += h.c.memory.Load() + h.c.inbox.frees(m.looks)
		h.c.post(h.c.killForMemory)
	}
	return n, freed
}
