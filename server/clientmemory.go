package server

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

const (
	// memoryStep is the least change of a connection's memory at which the total is
	// updated.
	memoryStep = 4 << 10
	// memoryPause is the shortest time between two searches for connections to close.
	// During this time, closed connections release their memory.
	memoryPause = 10 * time.Millisecond
	// memoryLogInterval is the least time between two log lines.
	memoryLogInterval = 10 * time.Second
)

// clientMemory is the account of clients' memory, with the connections and jobs that use
// it. Large memory is reserved before it is allocated. The rest of a connection's memory is
// measured when the connection settles. If the total exceeds Runtime.ClientMemory, the
// largest users lose their memory: the server ends a job, or closes a connection. Clients
// with CLIENT NO-EVICT come last.
type clientMemory struct {
	*memory.Account
	scavenger *memory.Scavenger
	looks     uint32 // number of calls of relieve

	mu   sync.Mutex
	jobs map[*spending]struct{} // guarded by mu
}

// init prepares m. running returns the number of slow steps that have not ended.
func (m *clientMemory) init(s *Server, running func() int) {
	m.scavenger = memory.NewScavenger(func() int { return running() + int(m.Total()/memory.ScavengeFrom) })
	m.Account = memory.NewAccount(func() int64 { return s.runtime.Load().ClientMemory }, m.scavenger.Ask)
	m.jobs = make(map[*spending]struct{})
}

// TakeMemory takes n bytes of the clients' memory for another front. It returns false if
// too few are left. A negative n gives bytes back.
func (s *Server) TakeMemory(n int) bool {
	if n <= 0 {
		s.memory.Add(int64(n))
		return true
	}
	return s.memory.Fits(int64(n))
}

// spending is the memory of a connection's job until the job ends. The connection may be
// closed before that.
type spending struct {
	memory.Spending
	in *clientMemory
	of *conn

	// The fields below are for jobs that run on workers.
	run     atomic.Pointer[func(x *turns.Turn)] // nil after it has begun or was dropped
	dropped func()                              // writes the reply if the job is dropped
	reads   bool                                // the job changes nothing
}

// begin runs the job, unless it was dropped.
func (p *spending) begin(x *turns.Turn) {
	if run := p.run.Swap(nil); run != nil {
		(*run)(x)
	}
}

// drop drops a job that has not begun. It gives all memory of the job back at once, because
// relieve must not find the memory at the connection, which still waits for the error.
func (p *spending) drop() {
	if p.run.Swap(nil) != nil {
		p.End()
		p.dropped()
	}
}

// abandon notes that nobody waits for the job's reply any more. As in Redis, a job that has
// begun continues if it may change something.
func (p *spending) abandon() {
	p.drop()
	if p.reads {
		p.Stop()
	}
}

// spend begins the spending of a job.
func (m *clientMemory) spend(of *conn) *spending {
	p := &spending{in: m, of: of}
	p.Begin(m.Account)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs[p] = struct{}{}
	return p
}

// handTo makes c the holder of the job's memory until c is weighed. If the job was stopped,
// its memory is given back instead, because relieve counts on that. The next weigh measures
// the part that c keeps.
func (p *spending) handTo(c *conn) {
	if p.Stopped() {
		p.End()
		return
	}
	c.memory.Add(p.HandOver())
}

// end releases all memory of the job.
func (p *spending) end() {
	p.End()
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	delete(p.in.jobs, p)
}

// weigh updates the account of c. The driver calls it when it has settled c, and when it
// has closed c.
func (c *conn) weigh() {
	n := cap(c.in) + c.parser.Held() + cap(c.parkedBytes) + cap(c.segments)*segmentSize + c.output + c.sent + c.watched.size + c.subscriber.Size()
	if c.tx != nil {
		n += c.tx.size
	}
	if c.closed {
		n = 0
	}
	d := int64(n) - c.memory.Load()
	if -memoryStep < d && d < memoryStep && !c.closed {
		return
	}
	c.memory.Store(int64(n))
	c.srv.memory.Add(d)
}

// reserve takes n bytes that c is about to allocate for input. If there are too few, it
// closes c and returns false. The next weigh includes the bytes.
func (c *conn) reserve(n int) bool {
	if !c.srv.memory.Borrow(int64(n)) {
		c.killForMemory()
		return false
	}
	c.memory.Add(int64(n))
	return true
}

func (c *conn) killForMemory() {
	if !c.killed { // an earlier search has not marked it yet
		c.srv.stats.counts[countMemoryKills].Add(1)
		c.starved = true
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
		case <-m.Over():
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
			if !memory.Rests(s.end, pause) {
				return
			}
			if n > 0 {
				pause = memoryPause
			} else { // the connections closed before have not ended yet
				pause = min(2*pause, time.Second)
			}
		}
	}
}

// holder is a connection or a job that uses memory, as relieve found it. The connection or
// job may change meanwhile.
type holder struct {
	c       *conn
	job     *spending // nil if the holder is the connection itself
	noEvict bool
	weight  int64 // bytes, including messages that other connections hold too
}

// holders returns the users of memory, in the order in which they lose it. ending is how
// many bytes will soon be released anyway.
func (m *clientMemory) holders(s *Server) (all []holder, ending int64) {
	for _, c := range s.clients.list() {
		if weight := c.memory.Load() + c.inbox.size.Load(); weight >= memoryStep {
			all = append(all, holder{c, nil, c.meta.Load().noEvict, weight})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for job := range m.jobs {
		if taken := job.Taken(); job.Stopped() {
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

// relieve drops messages for other nodes. If that is not enough, it closes connections, or
// ends their jobs, until enough memory will be released. n is how many it has ended. freed
// is how many bytes these and earlier ones will release.
func (m *clientMemory) relieve(s *Server) (n int, freed int64) {
	if m.Excess() > 0 {
		s.others.relieve()
	}
	if m.Excess() == 0 {
		return 0, 0
	}
	all, freed := m.holders(s)
	// Read the excess after the search: memory that was released during the search may be
	// missing from freed.
	excess := m.Excess()
	m.looks++
	for _, h := range all {
		if freed > excess {
			break
		}
		n++
		if h.job != nil {
			h.job.Stop()
			h.job.drop()
			freed += h.weight
			continue
		}
		freed += h.c.memory.Load() + h.c.inbox.frees(m.looks)
		h.c.post(h.c.killForMemory)
	}
	return n, freed
}
