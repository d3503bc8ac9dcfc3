package scenario

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	// markEvery is the time between two marks: how finely a loss is measured.
	markEvery = 4 * time.Millisecond

	// usualLoss is what docs/clustering.md calls usual: half of the leaders lose no more, nine of ten twice that. With
	// several groups it is longer by groupsLoss, because batches leave every 60 ms instead of every 20 ms. The middle of
	// fewer than fewKills says nothing.
	usualLoss  = 30 * time.Millisecond
	groupsLoss = 40 * time.Millisecond
	fewKills   = 4
)

// marks measure what a killed leader takes with it. A client counts a key up, one mark after the other, and notes when
// each was sent and answered. When the leader is killed another key begins. In the end the old key holds the marks that
// survived. The loss is the time from the answer to the first lost mark until the last mark was sent. It does not last
// until the kill: a leader without followers has stopped deciding some time before.
type marks struct {
	r    *Run
	stop chan struct{}
	wg   sync.WaitGroup

	paused atomic.Bool

	// mu guards reigns. The last one is under way.
	mu     sync.Mutex
	reigns []reign
}

// reign is the marks of one leader.
type reign struct {
	end   int64  // when the leader was killed, in the time of the history
	marks []mark // that made the count i+1
}

// mark is when one was sent, and answered.
type mark struct{ sent, answered int64 }

func startMarks(r *Run) *marks {
	m := &marks{r: r, stop: make(chan struct{}), reigns: make([]reign, 1)}
	m.wg.Go(m.run)
	return m
}

// close ends the marks; nil has none.
func (m *marks) close() {
	if m != nil && m.stop != nil {
		close(m.stop)
		m.wg.Wait()
		m.stop = nil
	}
}

// killed notes that the leader was killed just now.
func (m *marks) killed(at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reigns[len(m.reigns)-1].end = at
	m.reigns = append(m.reigns, reign{})
}

func markKey(reign int) string { return "mark:" + strconv.Itoa(reign) }

// run makes marks on one node after the other, whichever answers.
func (m *marks) run() {
	node := 0
	for {
		select {
		case <-m.stop:
			return
		case <-time.After(markEvery):
		}
		nodes := m.r.cluster.Nodes[:3]
		node = (node + 1) % len(nodes)
		if nc, err := net.DialTimeout("tcp", nodes[node].Addr, markEvery); err == nil {
			m.use(nc)
			nc.Close()
		}
	}
}

// use makes marks on one connection until it fails.
func (m *marks) use(nc net.Conn) {
	in := bufio.NewReader(nc)
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
		}
		if m.paused.Load() {
			continue
		}
		m.mu.Lock()
		n := len(m.reigns) - 1
		m.mu.Unlock()
		sent := m.r.now()
		nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write(respclient.Append(nil, "INCREX", markKey(n), "BYINT", "1")); err != nil {
			return
		}
		reply, err := respclient.Read(in)
		if err != nil || reply.Error() != "" || len(reply.Elems) != 2 {
			return
		}
		m.answered(n, reply.Elems[0].Int, sent)
	}
}

// answered notes that a mark that was sent at a time made the count.
func (m *marks) answered(n int, count, sent int64) {
	now := m.r.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.reigns[n]
	if r.end != 0 && now > r.end {
		return // another leader may have answered
	}
	if count <= int64(len(r.marks)) {
		r.marks = r.marks[:max(count-1, 0)] // a leader was lost otherwise, and the count with it
	}
	for int64(len(r.marks)) < count {
		r.marks = append(r.marks, mark{sent, now}) // those between were answered to nobody
	}
}

// lost is the time in which marks were answered of which only so many survived; 0 if all did.
func (r *reign) lost(survived int64) time.Duration {
	if survived >= int64(len(r.marks)) {
		return 0
	}
	first, last := r.marks[max(survived, 0)], r.marks[len(r.marks)-1]
	return max(markEvery, time.Duration(last.sent-first.answered))
}

// losses reads what survived of each reign that ended, and returns how much was lost of it. It must be called when no load
// runs.
func (m *marks) losses(n *cluster.Node) ([]time.Duration, error) {
	var out []time.Duration
	for i := range m.reigns[:len(m.reigns)-1] {
		r := &m.reigns[i]
		if len(r.marks) == 0 {
			continue // the marks had no node
		}
		reply, err := m.r.do(n, "INCREX", markKey(i), "BYINT", "0")
		if err != nil {
			return nil, err
		}
		out = append(out, r.lost(reply.Elems[0].Int))
	}
	return out, nil
}

// judgeLosses holds what was lost by killed leaders against what is promised, and against what is called usual.
func (r *Run) judgeLosses() {
	if r.marks == nil || len(r.lossTimes) == 0 {
		return
	}
	worst, median := slices.Max(r.lossTimes), oracle.Quantile(r.lossTimes, .5)
	text := fmt.Sprintf("%d leaders killed, decisions lost: %s", len(r.lossTimes), quantiles(r.lossTimes))
	if r.Mode == Sync {
		r.expect(worst == 0, "loss", "%s", text)
		return
	}
	usual, most := usualLoss, 2*usualLoss
	if r.busy() {
		most += usualLoss
	}
	if r.cluster.Groups > 1 {
		usual, most = usual+groupsLoss, most+groupsLoss
	}
	ok := oracle.Quantile(r.lossTimes, .9) <= most && worst <= maxUnacked
	if len(r.lossTimes) >= fewKills {
		ok = ok && median <= usual
	}
	r.expect(ok, "loss", "%s; usual are %v, for nine of ten %v, at most %v", text, usual, most, maxUnacked)
}
