package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// leaseSpend is units that a holder has spent.
type leaseSpend struct {
	at    time.Time
	units int64
}

// holder is a client that spends leases of one key by docs/leases.md. It asks with NEED
// 0, so all that it spends comes from its blocks.
type holder struct {
	id, key string
	limit   string // limit and period
	want    int64
	ttl     time.Duration
	nodes   []string

	mu       sync.Mutex
	seq      int64
	stock    int64
	taken    int64 // of the refill
	refill   int64
	began    time.Time
	lasts    time.Duration
	deadline time.Time
	spends   []leaseSpend
	refused  []time.Time // when a unit was wanted, and none was there

	conn net.Conn
	in   *bufio.Reader
}

// drift is the part by which a holder shortens its times: its clock may be fast or slow.
const drift = 1000

// has returns the units that the holder has. mu must be held.
func (h *holder) has(now time.Time) int64 {
	if !now.Before(h.deadline) {
		return 0
	}
	if h.refill > h.taken {
		past := now.Sub(h.began)
		past -= past / drift
		due := h.refill
		if past < h.lasts {
			due = int64(float64(h.refill) * float64(past) / float64(h.lasts))
		}
		h.stock, h.taken = h.stock+due-h.taken, due
	}
	return h.stock
}

// spend takes one unit, if there is one.
func (h *holder) spend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.has(now) == 0 {
		h.refused = append(h.refused, now)
		return
	}
	h.stock--
	h.spends = append(h.spends, leaseSpend{now, 1})
}

// renew asks for more. After an error the block goes on, without its refill.
func (h *holder) renew() error {
	h.mu.Lock()
	sent := time.Now()
	held := h.has(sent)
	h.stock, h.refill, h.taken = held, 0, 0
	h.seq++
	h.mu.Unlock()
	words := strings.Fields(fmt.Sprintf("RL.LEASE %s %s ID %s SEQ %d WANT %d HELD %d NEED 0 TTL %dms", h.key, h.limit, h.id, h.seq, h.want, held, h.ttl.Milliseconds()))
	reply, err := h.ask(words)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	granted, ttl, refill, lasts := reply[6], time.Duration(reply[7])*time.Millisecond, reply[8], time.Duration(reply[9])*time.Millisecond
	now := time.Now()
	if h.has(now); ttl == 0 || !now.Before(h.deadline) {
		h.stock = 0
	}
	if ttl == 0 {
		return nil
	}
	h.stock += granted
	h.deadline = sent.Add(ttl - ttl/drift)
	h.refill, h.taken, h.began, h.lasts = refill, 0, now, lasts
	return nil
}

// ask sends a command to a node that answers, and returns its numbers.
func (h *holder) ask(words []string) (n []int64, err error) {
	if h.conn == nil {
		h.nodes = append(h.nodes[1:], h.nodes[0])
		if h.conn, err = net.DialTimeout("tcp", h.nodes[0], 100*time.Millisecond); err != nil {
			h.conn = nil
			return nil, err
		}
		h.in = bufio.NewReader(h.conn)
	}
	defer func() {
		if err != nil {
			h.conn.Close()
			h.conn = nil
		}
	}()
	if err := h.conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return nil, err
	}
	if _, err := h.conn.Write(resp.AppendCommand(nil, words)); err != nil {
		return nil, err
	}
	header, err := h.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(header, "*11") {
		return nil, fmt.Errorf("%q", header)
	}
	for range 11 {
		line, err := h.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
		if err != nil {
			return nil, err
		}
		n = append(n, v)
	}
	return n, nil
}

// run spends rate units a second, and renews, until stop is closed.
func (h *holder) run(stop <-chan struct{}, rate int, asked *atomic.Int64) {
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				h.spend()
			}
		}
	})
	for {
		select {
		case <-stop:
			wg.Wait()
			return
		case <-time.After(20 * time.Millisecond):
		}
		h.mu.Lock()
		now := time.Now()
		low := h.has(now) < h.want*2/5
		due := h.refill > 0 && now.Sub(h.began) < h.lasts*3/5
		h.mu.Unlock()
		if low && !due {
			asked.Add(1)
			_ = h.renew() // it goes on with what it has
		}
	}
}

// overdraft returns how many units more than a bucket of a capacity and rate the spends
// took at most.
func overdraft(spends []leaseSpend, capacity, rate float64) (worst float64) {
	slices.SortFunc(spends, func(a, b leaseSpend) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	level := capacity
	for i, s := range spends {
		if i > 0 {
			level = min(capacity, level+s.at.Sub(spends[i-1].at).Seconds()*rate)
		}
		level -= float64(s.units)
		worst = max(worst, -level)
	}
	return worst
}

// Holders of leases admit no unit too many while leaders are killed and holders stand
// still, and holders whose limit is not exhausted do not notice.
func TestLeasesWhileLeadersDie(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, "--durability=sync")
	var nodes []string
	for _, n := range c.nodes {
		nodes = append(nodes, n.redis)
	}
	const (
		scarce, plenty = 1000, 100_000 // units a second, and the capacity
		demand         = 500           // of each of four holders of the scarce limit
	)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var tight, easy []*holder
	var asked, easyAsked atomic.Int64
	for i := range 4 {
		h := &holder{id: fmt.Sprint("t", i), key: "tight", limit: fmt.Sprint(scarce, " 1"), want: 2 * demand, ttl: 2 * time.Second, nodes: slices.Clone(nodes)}
		tight = append(tight, h)
		wg.Go(func() { h.run(stop, demand, &asked) })
	}
	for i := range 2 {
		h := &holder{id: fmt.Sprint("e", i), key: "easy", limit: fmt.Sprint(plenty, " 1"), want: 4000, ttl: 20 * time.Second, nodes: slices.Clone(nodes)}
		easy = append(easy, h)
		wg.Go(func() { h.run(stop, 100, &easyAsked) })
	}
	began := time.Now()
	time.Sleep(time.Second)
	for range 2 {
		leader := c.leader(t)
		require.NoError(t, leader.Kill())
		time.Sleep(2 * time.Second)
		leader.start(t)
		time.Sleep(time.Second)
	}
	// A leader that stands still is replaced, and comes back with old leases.
	leader := c.leader(t)
	leader.signal(t, syscall.SIGSTOP)
	time.Sleep(2 * time.Second)
	leader.signal(t, syscall.SIGCONT)
	time.Sleep(time.Second)
	close(stop)
	wg.Wait()
	took := time.Since(began).Seconds()
	var spends []leaseSpend
	for _, h := range tight {
		spends = append(spends, h.spends...)
	}
	used := float64(len(spends)) / (scarce * (1 + took))
	t.Logf("%d units of %.0f in %.1f s (%.0f %%), %d requests; of a limit with room %d requests for %d units",
		len(spends), scarce*(1+took), took, 100*used, asked.Load(), easyAsked.Load(), len(easy[0].spends)+len(easy[1].spends))
	require.Zero(t, overdraft(spends, scarce, scarce))
	require.Greater(t, used, 0.3, "elections take some of the time")
	for _, h := range easy {
		for _, at := range h.refused {
			require.Less(t, at.Sub(began), time.Second, "%s had no unit, after its first block", h.id)
		}
	}
}
