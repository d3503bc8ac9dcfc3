package main

import (
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/disktest"
)

// startOnDisk starts a node on its own whose data is on d, and waits until it
// decides.
func startOnDisk(t *testing.T, d *disktest.Disk) (*process, *client) {
	t.Helper()
	p := start(t, "--data-dir="+filepath.Join(d.Dir, "data"), "--peer-listen=127.0.0.1:0")
	require.Eventually(t, p.ready, waitLimit, 5*time.Millisecond)
	return p, dial(t, "tcp", p.redis)
}

// diskFull reports what the metrics say.
func (p *process) diskFull(t *testing.T) bool {
	t.Helper()
	page := p.get(t, "/metrics")
	require.Contains(t, page, "\nheadgate_data_dir_free_bytes ")
	return strings.Contains(page, "\nheadgate_data_dir_full 1\n")
}

// fillLog writes until the log has no room.
func (p *process) fillLog(t *testing.T, c *client) {
	t.Helper()
	key := byte('a')
	require.Eventually(t, func() bool {
		key ^= 'a' ^ 'b' // a value that is not like the one before travels whole
		require.Equal(t, "+OK", c.do("SET", "filler", strings.Repeat(string(key), 300<<10)))
		return p.diskFull(t)
	}, waitLimit, 25*time.Millisecond)
	c.do("DEL", "filler")
}

func (p *process) awaitRoom(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return !p.diskFull(t) }, waitLimit, 20*time.Millisecond)
}

func (c *client) count(t *testing.T, key string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(c.do("INCR", key), ":"))
	require.NoError(t, err)
	return n
}

// While the disk is full, a node on its own goes on in memory, reports it, and
// can start. When there is room again, everything is on the disk.
func TestFullDiskOfANodeOnItsOwn(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	d := disktest.Mount(t, 24<<20)
	p, c := startOnDisk(t, d)
	require.Equal(t, 1, c.count(t, "before"))
	require.Equal(t, "*6", dial(t, "tcp", p.redis).do("RL.LIMIT", "k", "10", "60", "SYNC"))
	require.NoError(t, d.Fill())
	p.fillLog(t, c)

	const unstored = "-UNCERTAIN this was decided in memory only: the disk of this node is full"
	require.Equal(t, unstored, c.do("RL.LIMIT", "k", "10", "60", "SYNC"))
	require.Equal(t, unstored, c.do("RL.LIMIT", "k", "10", "60", "SYNC", "COST", "100"), "a denial too")
	require.Equal(t, unstored, c.do("RL.POLICY", "SET", "p", `{"limits":{"a":{"rate":"10/s"}}}`))
	for range 8 {
		require.Equal(t, 200, p.status("/readyz"))
	}
	require.Equal(t, "*6", dial(t, "tcp", p.redis).do("RL.LIMIT", "k", "10", "60"))
	require.Contains(t, p.stderr.String(), "the disk is full")

	p.signal(t, syscall.SIGKILL)
	require.Error(t, p.wait(t))
	p, c = startOnDisk(t, d)
	require.Equal(t, 2, c.count(t, "before"))
	p.fillLog(t, c)
	for i := range 100 {
		require.Equal(t, i+1, c.count(t, "within"))
	}
	require.NoError(t, d.Free())
	p.awaitRoom(t)
	require.Equal(t, "*6", dial(t, "tcp", p.redis).do("RL.LIMIT", "k", "10", "60", "SYNC"))
	p.signal(t, syscall.SIGKILL)
	require.Error(t, p.wait(t))
	_, c = startOnDisk(t, d)
	require.Equal(t, 101, c.count(t, "within"))
	require.Equal(t, 3, c.count(t, "before"))
}

// A node is killed at any moment, while its disk is full or has room again. It
// starts with the state from when the disk became full, or with all decisions
// before the snapshot.
func TestKillsWithAFullDisk(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	d := disktest.Mount(t, 24<<20)
	p, c := startOnDisk(t, d)
	durable := 0
	for range 4 {
		require.NoError(t, d.Fill())
		p.fillLog(t, c)
		counted := 0
		for range 50 {
			counted = c.count(t, "n")
		}
		require.NoError(t, d.Free())
		time.Sleep(rand.N(500 * time.Millisecond))
		p.signal(t, syscall.SIGKILL)
		require.Error(t, p.wait(t))
		p, c = startOnDisk(t, d)
		require.NotContains(t, p.stderr.String(), `"level":"ERROR"`)
		now := c.count(t, "n")
		require.Contains(t, []int{durable + 1, counted + 1}, now)
		durable = now
		require.Equal(t, "*6", dial(t, "tcp", p.redis).do("RL.LIMIT", "k", "1000", "60", "SYNC"), "what was counted is on the disk")
	}
}
