package server

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// reset closes the connection so that the server hears of it at once.
func (c *client) reset() {
	c.t.Helper()
	require.NoError(c.t, c.Conn.(*net.TCPConn).SetLinger(0))
	require.NoError(c.t, c.Close())
}

// A job that waits for a worker or a turn is dropped with its connection. It gives back its
// memory before a worker is free, and it does not run.
func TestJobsThatWaitAreDroppedWithTheirConnections(t *testing.T) {
	long := strings.Repeat("x", 2*4<<10)
	for name, sent := range map[string]string{
		"command":     "DEL k" + strings.Repeat(" j", 10_000) + "\r\n",
		"script":      encode("EVAL", "return redis.call('del', KEYS[1]) --"+long, "1", "k"),
		"transaction": "WATCH j\r\nMULTI\r\n" + encode("SET", "l", long) + "DEL k\r\nDEL" + strings.Repeat(" j", 10_000) + "\r\nEXEC\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := startServer(t, Config{Workers: 1})
			free := make(chan struct{})
			require.True(t, s.workers.submit(workLong, false, func() { <-free }))
			x := s.workers.turns.Take(anybody(s))
			other, c := dial(t, addr), dial(t, addr)
			other.do("SET k v", "+OK\r\n")
			c.send(sent)
			eventually(t, "it to wait", func() bool { return s.workers.kept.Load() > 0 })
			c.reset()
			eventually(t, "it to be dropped", func() bool { return s.workers.kept.Load() == 0 && s.memory.Total() < memoryStep })
			x.End()
			close(free)
			eventually(t, "the worker to be free", func() bool { return other.call("DEL j"+strings.Repeat(" j", 10_000)) == int64(0) })
			require.Equal(t, int64(0), other.call(`EVAL "return 0 --`+long+`" 0`), "turns are free")
			require.Equal(t, "v", other.call("GET k"))
			require.Zero(t, s.engine.Watches())
		})
	}
}

// A waiting job may also be dropped for its memory, and its client gets an error.
func TestJobsThatWaitAreDroppedForTheirMemory(t *testing.T) {
	s, addr := startServer(t, Config{Workers: 1})
	x := s.workers.turns.Take(anybody(s))
	defer x.End()
	other := dial(t, addr)
	other.do("SET k v", "+OK\r\n")
	var clients []*client
	for range 4 {
		c := dial(t, addr)
		c.send(encode("EVAL", "return redis.call('del', KEYS[1]) --"+strings.Repeat("x", 500_000), "1", "k"))
		clients = append(clients, c)
	}
	eventually(t, "all to wait, without their input", func() bool {
		return s.workers.kept.Load() > 2_000_000 && s.memory.Total() < 2_100_000
	})
	const bound = 1_200_000
	s.Configure(Runtime{ClientMemory: bound})
	s.memory.Add(1)
	s.memory.Add(-1)
	eventually(t, "memory to come back", func() bool { return s.memory.Total() <= bound && s.workers.kept.Load() <= bound })
	refused := 0
	for _, c := range clients {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		line, err := c.r.ReadString('\n')
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "no connection is closed")
			continue
		}
		require.Equal(t, "-ERR "+memory.ErrFull.Error()+"\r\n", line)
		refused++
	}
	require.Equal(t, 2, refused)
	require.Equal(t, "v", other.call("GET k"))
}

// A look between the end of a job and the weighing of its connection ends nobody else: the
// memory of the job is about to come back, or has.
func TestLooksCountWhatEndedJobsHeld(t *testing.T) {
	for name, begun := range map[string]bool{"dropped": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			s, m := testMachine(t, Config{Workers: 1, Runtime: Runtime{ScriptTime: time.Hour}}, new(committer))
			other := newMachine(s)
			x := s.workers.turns.Take(anybody(s))
			long := strings.Repeat("x", 200_000)
			other.feed(encode("EVAL", "return 1 --"+long, "0"))
			m.feed(encode("EVAL", "while true do end --"+long+long, "0"))
			m.weigh()
			other.weigh()
			if begun {
				x.End()
				eventually(t, "both to begin", func() bool { return m.job.run.Load() == nil && other.job.run.Load() == nil })
			} else {
				defer x.End()
			}
			s.Configure(Runtime{ScriptTime: time.Hour, ClientMemory: 500_000})
			n, freed := s.memory.relieve(s)
			require.Equal(t, 1, n)
			require.Greater(t, freed, int64(400_000))
			eventually(t, "its error", func() bool {
				m.lane.runPosts()
				return strings.Contains(m.out.String(), memory.ErrFull.Error())
			})
			n, _ = s.memory.relieve(s)
			require.Zero(t, n)
			other.lane.runPosts()
			require.NotContains(t, other.take(), "ERR")
			require.False(t, other.killed)
		})
	}
}

// A script that has begun goes on without its client, as in Redis; one that only reads
// ends.
func TestScriptsThatHaveBegunGoOnWithoutTheirClients(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: time.Hour}})
	writer, reader, other := dial(t, addr), dial(t, addr), dial(t, addr)
	writer.send(`EVAL "for i = 1, 20000000 do end redis.call('set', KEYS[1], 1)" 1 done` + "\r\n")
	reader.send(`EVAL_RO "while true do end" 0` + "\r\n")
	eventually(t, "both to have begun", func() bool { return s.scripts.Slow() == 2 })
	writer.reset()
	reader.reset()
	eventually(t, "both to end", func() bool { return s.scripts.Slow() == 0 })
	require.Equal(t, int64(1), other.call("EXISTS done"))
}

// anybody returns a client of the workers' turns.
func anybody(s *Server) turns.Client { return s.workers.turns.Client("anybody", new(turns.Share)) }

// A step that has its place and does not ask shows at once, not after the minute
// that jobs may take.
func TestStepsThatDoNotAskAreBusy(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	x := s.workers.turns.Take(anybody(s))
	time.Sleep(50 * time.Millisecond)
	require.GreaterOrEqual(t, s.Busy(), 50*time.Millisecond)
	x.End()
	require.Less(t, s.Busy(), 50*time.Millisecond)
}
