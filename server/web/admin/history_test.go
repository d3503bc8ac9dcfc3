package admin

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// counted is a View whose counts a test sets.
type counted struct {
	mu   sync.Mutex
	now  Now
	took Durations
}

func (c *counted) Now() (n Now) {
	c.set(func() { n = c.now })
	return n
}

func (c *counted) Durations() (d Durations) {
	c.set(func() { d = c.took })
	return d
}

func (c *counted) Cluster() *Cluster    { return nil }
func (c *counted) Counts() []LimitCount { return nil }

func (c *counted) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// decide counts n decisions that took between 2^(i-1) and 2^i µs.
func (c *counted) decide(n uint64, i int) {
	c.set(func() {
		c.now.Commands += n
		c.now.Allowed += n
		for ; i < len(c.took); i++ {
			c.took[i] += n
		}
	})
}

// The history has a point for each 5 s, with the counts of that time alone. It keeps 15
// minutes in memory of a fixed size, and reads nothing after its end.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := &counted{now: Now{Commands: 1000, Allowed: 1000}}
		api, stop := New(nil, view), make(chan struct{})
		done := make(chan struct{})
		go func() { defer close(done); api.Watch(stop) }()
		defer func() { close(stop); <-done }()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(0)
		require.Empty(t, api.past.list(), "nothing is known of the time before the start")

		view.set(func() { view.now.Clients, view.now.Keys, view.now.Memory, view.now.Denied = 3, 4, 5, 6 })
		view.decide(99, 2)
		view.decide(1, 10)
		pass(historyInterval)
		require.Equal(t, []Point{{
			At: time.Now().UnixMilli(), Span: 5000, Commands: 100, Allowed: 100, Denied: 6, P50: 4, P99: 4, Clients: 3, Keys: 4, Memory: 5,
		}}, api.past.list(), "99 of 100 decisions took 2 to 4 µs")

		view.decide(2, 10)
		pass(historyInterval)
		view.set(func() { view.now, view.took = Now{Commands: 7, Denied: 2}, Durations{} }) // CONFIG RESETSTAT
		view.decide(1, 0)
		pass(historyInterval)
		list := api.past.list()
		require.Len(t, list, 3)
		require.Equal(t, [2]int64{768, 1019}, [2]int64{list[1].P50, list[1].P99}, "between 512 and 1024 µs")
		require.Equal(t, [5]int64{8, 1, 2, 1, 1}, [5]int64{int64(list[2].Commands), int64(list[2].Allowed), int64(list[2].Denied), list[2].P50, list[2].P99})

		pass(time.Hour)
		list = api.past.list()
		require.Len(t, list, historyPoints)
		require.Equal(t, time.Now().UnixMilli(), list[historyPoints-1].At)
		require.Equal(t, (historyPoints-1)*historyInterval.Milliseconds(), list[historyPoints-1].At-list[0].At)
		require.Zero(t, list[0].P50, "there were no decisions")
		require.Zero(t, list[0].Commands)
	})
}

// The history takes less than 32 KiB.
func TestMemoryOfTheHistory(t *testing.T) { require.Less(t, unsafe.Sizeof(history{}), uintptr(32<<10)) }

// A process that stood still, as under SIGSTOP, has a point that says how long.
func TestHistoryOfAPause(t *testing.T) {
	h, start := new(history), time.Unix(1_800_000_000, 0)
	h.add(&Now{}, new(Durations), start)
	h.add(&Now{Commands: 60}, new(Durations), start.Add(time.Minute))
	require.Equal(t, []Point{{At: start.Add(time.Minute).UnixMilli(), Span: 60_000, Commands: 60}}, h.list())
}

func TestQuantiles(t *testing.T) {
	d := Durations{}
	require.Zero(t, d.quantile(0.5))
	for i := 3; i < len(d); i++ { // one, of 4 to 8 µs
		d[i] = 1
	}
	require.Equal(t, int64(8), d.quantile(0.5))
	require.Equal(t, int64(8), d.quantile(0.99))
	for i := 31; i < len(d); i++ { // and 99 beyond all
		d[i] += 99
	}
	require.Greater(t, d.quantile(0.5), int64(1<<30))
}
