package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// keyOf returns a key of a group.
func keyOf(group, groups int) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("{%d}", i)
		if partition.GroupOf(keySlot([]byte(key)), groups) == group {
			return key
		}
	}
}

// flying is a machine of a node that leads the first of four groups. Its frames for the
// others wait for a handover.
func flying(t *testing.T, cfg Config) (groups []*fakeCluster, s *Server, m *machine, keys []string) {
	cfg.ForwardTimeout, cfg.HandoverWait = patience, patience
	for i := range 4 {
		f := newFakeCluster(partition.Handover)
		groups = append(groups, f)
		cfg.Parts = append(cfg.Parts, Part{engine.New(engine.Config{}), f})
		keys = append(keys, keyOf(i, 4))
	}
	groups[0].become(partition.Leading)
	s, m = testMachine(t, cfg, new(committer))
	return groups, s, m, keys
}

// landed waits until the machine has nothing under way, and returns the replies.
func (m *machine) landed(t *testing.T) (replies string) {
	t.Helper()
	eventually(t, "the flight lands", func() bool {
		m.lane.runPosts()
		replies += m.take()
		return m.stall == 0 && m.flight == nil
	})
	return replies
}

// A pipeline over several groups is one flight, and this node's replies wait in it.
func TestAPipelineOverGroupsIsOneFlight(t *testing.T) {
	groups, s, m, keys := flying(t, Config{})
	m.feed(fmt.Sprintf("INCR %[1]s\r\nINCR %[2]s\r\nINCR %[1]s\r\nINCR %[3]s\r\nINCR %[2]s\r\nINCR %[1]s\r\nTTL\r\nINCR %[1]s\r\n", keys[0], keys[1], keys[2]))
	require.Len(t, m.flight.frames, 2)
	require.Equal(t, ":1\r\n", m.take(), "the first reply waits for nobody")
	require.Equal(t, 1, s.parts[0].Engine().Len())
	require.Equal(t, stallLeader, m.stall)
	require.Equal(t, []string{"TTL"}, []string{string(m.deferred[0])}, "an error is no command of a group")
	for i := 1; i < 3; i++ {
		groups[i].become(partition.Leading)
	}
	require.Equal(t, ":1\r\n:2\r\n:1\r\n:2\r\n:3\r\n-ERR wrong number of arguments for 'ttl' command\r\n:4\r\n", m.landed(t))
}

// Commands without a slot may change what later commands mean: they fly alone.
func TestCommandsWithoutASlotFlyAlone(t *testing.T) {
	groups, _, m, keys := flying(t, Config{})
	groups[0].become(partition.Handover)
	m.feed("SCRIPT LOAD \"return 7\"\r\nEVALSHA 4ca238f611c9d0ae4e9a75a5dbac22aedc1e44cd 1 " + keys[1] + "\r\n")
	require.Len(t, m.flight.frames, 1)
	require.Equal(t, "EVALSHA", string(m.deferred[0]))
	m.kill()
	m.release()

	m = newMachine(m.srv)
	m.feed("INCR " + keys[1] + "\r\nINCR " + keys[2] + "\r\nSCRIPT LOAD \"return 7\"\r\n")
	require.Len(t, m.flight.frames, 2)
	require.Equal(t, "SCRIPT", string(m.deferred[0]))
}

// A node that becomes leader before it has sent its frames runs their commands, each in its
// turn. A command that waits, such as PING here, comes after them.
func TestCommandsRunHereIfThisNodeLeadsNow(t *testing.T) {
	for name, first := range map[string]int{"the first": 1, "the second": 2} {
		t.Run(name, func(t *testing.T) {
			groups, _, m, keys := flying(t, Config{})
			m.feed(fmt.Sprintf("INCR %[2]s\r\nINCR %[1]s\r\nINCR %[3]s\r\nINCR %[2]s\r\nEVAL \"return 9\" 1 %[1]s\r\nINCR %[3]s\r\nPING\r\nINCR %[3]s\r\n", keys[0], keys[1], keys[2]))
			require.Empty(t, m.take())
			groups[first].become(partition.Leading)
			time.Sleep(10 * time.Millisecond)
			m.lane.runPosts()
			groups[3-first].become(partition.Leading)
			require.Equal(t, ":1\r\n:1\r\n:1\r\n:2\r\n:9\r\n:2\r\n+PONG\r\n:3\r\n", m.landed(t))
		})
	}
}

// The replies of commands that this node decides may wait for their own commits.
func TestOwnRepliesOfAFlightWaitForTheirCommits(t *testing.T) {
	groups, s, m, keys := flying(t, Config{})
	groups[0].set(func(f *fakeCluster) { f.durable = true })
	m.feed(fmt.Sprintf("INCR %[2]s\r\nINCR %[1]s\r\nINCR %[2]s\r\nINCR %[1]s\r\n", keys[0], keys[1]))
	require.EqualValues(t, 1, groups[0].awaits.Load(), "the commit does not wait for the flight")
	groups[1].become(partition.Leading)
	require.Equal(t, ":1\r\n", m.landed(t))
	s.parts[0].Release(1, partition.ErrUncertain)
	m.lane.runPosts()
	require.Equal(t, uncertain+":2\r\n"+uncertain, m.take())
}

// A worker's reply has its place too, whether it comes before or after those of leaders.
func TestAJobsReplyHasItsPlaceInAFlight(t *testing.T) {
	slow := "EVAL \"local n = 0 for i = 1, 3000000 do n = n + 1 end return n\" 1 "
	for _, first := range []string{"job", "frame"} {
		t.Run(first, func(t *testing.T) {
			groups, _, m, keys := flying(t, Config{})
			m.feed("INCR " + keys[1] + "\r\n" + slow + keys[0] + "\r\nPING\r\n")
			require.Equal(t, stallLeader|stallWorker, m.stall)
			if first == "frame" {
				groups[1].become(partition.Leading)
			}
			eventually(t, "the job ends", func() bool { m.lane.runPosts(); return m.stall&stallWorker == 0 })
			if first == "job" {
				require.Empty(t, m.take())
				groups[1].become(partition.Leading)
			}
			require.Equal(t, ":1\r\n:3000000\r\n+PONG\r\n", m.landed(t))
		})
	}
}

// A paused client's commands stay paused if they run here after all.
func TestCommandsOfAFlightMayBePaused(t *testing.T) {
	groups, s, m, keys := flying(t, Config{})
	m.feed(fmt.Sprintf("INCR %s\r\nINCR %s\r\nINCR %[1]s\r\nPING\r\n", keys[1], keys[2]))
	other := newMachine(s)
	other.feed("CLIENT PAUSE 60000 WRITE\r\n")
	groups[1].become(partition.Leading)
	groups[2].become(partition.Leading)
	eventually(t, "the client is paused", func() bool { m.lane.runPosts(); return m.stall == stallPause })
	require.Empty(t, m.take())
	other.feed("CLIENT UNPAUSE\r\n")
	require.Equal(t, ":1\r\n:1\r\n:2\r\n+PONG\r\n", m.landed(t))
}

// An invalidation comes after its reply and before the next one, as in a server of one group,
// also while a flight is under way.
func TestTrackingOfAPipelineOverGroups(t *testing.T) {
	for name, read := range map[string]string{
		"a fast command": "GET " + low,
		"a job":          "EXISTS" + strings.Repeat(" "+low, 3000),
	} {
		t.Run(name, func(t *testing.T) {
			one := startGroups(t, Config{HandoverWait: patience}, partition.Leading, partition.Handover)
			two := startGroups(t, Config{}, partition.Following, partition.Leading)
			_, alone := startServer(t, Config{})
			var got [2][]any
			for i, addr := range []string{alone, one.addr} {
				c := dial(t, addr)
				c.call("HELLO 3")
				require.Equal(t, "OK", c.call("CLIENT TRACKING on"))
				c.send("INCR " + high + "\r\n" + read + "\r\nINCR " + low + "\r\nECHO end\r\n")
				if addr == one.addr {
					other := dial(t, addr)
					eventually(t, "the pipeline waits for a leader", func() bool {
						return !strings.Contains(other.call("CLIENT LIST").(string), "cmd=client|tracking")
					})
					one.follow(1, two)
				}
				for len(got[i]) < 5 {
					got[i] = append(got[i], c.reply())
				}
			}
			require.Equal(t, got[0], got[1])
		})
	}
}

// A client with BCAST learns what others read after they have their replies.
func TestBroadcastsOfAFlightWaitForItsReplies(t *testing.T) {
	groups, s, m, keys := flying(t, Config{})
	watcher := newMachine(s)
	watcher.feed("HELLO 3\r\nCLIENT TRACKING on BCAST\r\n")
	watcher.take()
	m.feed(fmt.Sprintf("INCR %s\r\nINCR %s\r\nGET %[2]s\r\n", keys[1], keys[0]))
	watcher.lane.runPosts()
	require.Empty(t, watcher.take())
	groups[1].become(partition.Leading)
	require.Equal(t, ":1\r\n:1\r\n$1\r\n1\r\n", m.landed(t))
	watcher.lane.runPosts()
	require.Contains(t, watcher.take(), "invalidate")
}

// A flight is bounded, also in what this node answers.
func TestFlightsAreBounded(t *testing.T) {
	_, _, m, keys := flying(t, Config{})
	m.feed("INCR " + keys[1] + "\r\n" + strings.Repeat("INCR "+keys[0]+"\r\nINCR "+keys[2]+"\r\n", flightCommands))
	require.LessOrEqual(t, m.flight.commands, flightCommands)
	require.Equal(t, stallLeader, m.stall)
	m.kill()
	m.release()

	_, _, m, keys = flying(t, Config{OutputBufferSoft: 200 << 10})
	m.feed(encode("SET", keys[0], strings.Repeat("x", 100<<10)))
	require.Equal(t, "+OK\r\n", m.take())
	m.feed("INCR " + keys[1] + "\r\n" + strings.Repeat("GET "+keys[0]+"\r\n", 100))
	require.LessOrEqual(t, len(m.flight.own), 301<<10)
	require.GreaterOrEqual(t, m.sent, len(m.flight.own), "the account has it")
	m.kill()
	m.release()

	_, _, m, keys = flying(t, Config{})
	m.feed("MULTI\r\n" + encode("SET", keys[1], strings.Repeat("x", 100<<10)) + "EXEC\r\n")
	require.GreaterOrEqual(t, m.sent, 200<<10, "the account has the transaction and its frame")
}

// calls returns how often commands were run on a server.
func calls(s *Server, names ...string) []uint64 {
	of := make(map[string]uint64)
	s.eachCalled(func(cmd *command.Spec, n callCounts) { of[cmd.Full] = n.calls })
	var all []uint64
	for _, name := range names {
		all = append(all, of[name])
	}
	return all
}

// A command that runs here in its turn is counted and shown once, as any other.
func TestCommandsThatRunHereAreCountedOnce(t *testing.T) {
	groups, s, m, keys := flying(t, Config{})
	watcher := newMachine(s)
	watcher.feed("MONITOR\r\n")
	m.feed(fmt.Sprintf("INCR %s\r\nINCR %s\r\n", keys[1], keys[2]))
	other := newMachine(s)
	other.feed(fmt.Sprintf("MULTI\r\nINCR %s\r\nEXEC\r\n", keys[3]))
	for _, f := range groups[1:] {
		f.become(partition.Leading)
	}
	require.Equal(t, ":1\r\n:1\r\n", m.landed(t))
	require.Equal(t, "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n", other.landed(t))
	require.Equal(t, []uint64{3, 1}, calls(s, "incr", "exec"))
	watcher.lane.runPosts()
	shown := watcher.take()
	require.Equal(t, 3, strings.Count(shown, `"INCR"`), shown)
	require.Equal(t, 1, strings.Count(shown, `"EXEC"`), shown)
}

// A read that runs here in its turn is invalidated after its reply, if it was tracked when it
// arrived.
func TestReadsThatRunHereAreInvalidated(t *testing.T) {
	groups, _, m, keys := flying(t, Config{})
	m.feed("HELLO 3\r\nCLIENT TRACKING on OPTIN\r\nCLIENT CACHING yes\r\n")
	m.take()
	m.feed(fmt.Sprintf("GET %s\r\nGET %s\r\n", keys[1], keys[2]))
	groups[1].become(partition.Leading)
	groups[2].become(partition.Leading)
	push := fmt.Sprintf(">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%s\r\n", len(keys[1]), keys[1])
	require.Equal(t, "_\r\n"+push+"_\r\n", m.landed(t))
}

// sharedCluster is three nodes of a cluster whose groups have the same engines, so that
// leadership moves without replication.
type sharedCluster struct {
	nodes [3]*groupsNode
	leads []int // of each group: the node
}

func startShared(t *testing.T, groups int) *sharedCluster {
	x := &sharedCluster{leads: make([]int, groups)}
	engines := engine.NewEngines(engine.Config{}, groups)
	for i := range x.nodes {
		n := new(groupsNode)
		cfg := Config{ForwardTimeout: patience, HandoverWait: patience}
		for g := range groups {
			f := newFakeCluster(partition.Handover)
			n.groups = append(n.groups, f)
			cfg.Parts = append(cfg.Parts, Part{engines[g], f})
		}
		n.Server = newTestServer(t, cfg, func() uint64 { return 1 })
		n.addr = serveOn(t, n.Server)
		for g := range groups {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			go n.ServeForwarded(ofGroup{ln, g})
			n.forward = append(n.forward, ln.Addr().String())
		}
		x.nodes[i] = n
	}
	for g := range groups {
		x.move(g, g%len(x.nodes))
	}
	return x
}

// move hands a group over.
func (x *sharedCluster) move(group, to int) {
	for _, n := range x.nodes {
		n.groups[group].become(partition.Handover)
		n.parts[group].NoteHandover()
	}
	x.leads[group] = to
	for i, n := range x.nodes {
		if i != to {
			n.follow(group, x.nodes[to])
			n.parts[group].LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
		}
	}
	x.nodes[to].groups[group].become(partition.Leading)
	x.nodes[to].parts[group].LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
}

// Random pipelines over twelve groups get the replies that one group gives, in the same
// order, while leaders move.
func TestPipelinesOverGroupsAnswerAsOneGroup(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := startShared(t, 12)
	_, oracle := startServer(t, Config{})
	ctx, stop := context.WithCancel(context.Background())
	var mover, clients sync.WaitGroup
	moves := 0
	mover.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 0))
		for ctx.Err() == nil {
			x.move(rng.IntN(12), rng.IntN(3))
			moves++
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
		}
	})
	rounds := 50
	if testing.Short() {
		rounds = 20
	}
	for k := range 6 {
		many, one := dial(t, x.nodes[k%3].addr), dial(t, oracle)
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(k+1)))
			for range rounds {
				for _, c := range []*client{many, one} {
					if err := c.SetDeadline(time.Now().Add(6 * patience)); err != nil {
						t.Error(err)
						return
					}
				}
				var b strings.Builder
				n := 1 + rng.IntN(40)
				for i := range n {
					fmt.Fprintf(&b, "%s\r\n", randomCommand(rng, k))
					if i == n-1 {
						b.WriteString("ECHO end\r\n")
					}
				}
				if !samePipeline(many, one, b.String()) {
					t.Errorf("client %d: %q", k, b.String())
					return
				}
			}
		})
	}
	clients.Wait()
	stop()
	mover.Wait()
	t.Logf("%d handovers", moves)
	require.Greater(t, moves, 20)
}

// randomCommand returns a command on keys of client k.
func randomCommand(rng *rand.Rand, k int) string {
	key := func() string { return fmt.Sprintf("c%d:%d", k, rng.IntN(30)) }
	switch rng.IntN(16) {
	case 0:
		return "PING"
	case 1:
		return "SET s" + key() + " " + fmt.Sprint(rng.IntN(1000))
	case 2:
		return "GET s" + key()
	case 3:
		return "EVAL \"return redis.call('incrby', KEYS[1], ARGV[1])\" 1 " + key() + " 3"
	case 4:
		return "MGET s" + key() + " s" + key() + " s" + key()
	case 5:
		at := key()
		return "MULTI\r\nINCR " + at + "\r\nGET " + at + "\r\nEXEC"
	case 6:
		return "TTL"
	case 7:
		return "GET l" + key()
	case 8:
		return "CLIENT REPLY SKIP\r\nINCR " + key()
	case 9:
		return "EVAL \"local n = 0 for i = 1, 100000 do n = n + 1 end return redis.call('incrby', KEYS[1], n)\" 1 " + key()
	case 10:
		return "RL.LIMIT l" + key() + " 1000 365d ALGORITHM fixed ALIGN first COST 2"
	case 11:
		return "DEL " + key() + " " + key()
	}
	return "INCR " + key()
}

// samePipeline sends a pipeline to two servers, and reports whether they give the same
// replies. The times in the replies of RL.LIMIT may differ.
func samePipeline(many, one *client, pipeline string) bool {
	for _, c := range []*client{many, one} {
		if _, err := c.Write([]byte(pipeline)); err != nil {
			return false
		}
	}
	for i := 0; ; i++ {
		a, b := many.reply(), one.reply()
		if list, ok := a.([]any); ok && len(list) == 6 {
			other, ok := b.([]any)
			if !ok || len(other) != 6 {
				return false
			}
			a, b = list[:3], other[:3]
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			many.t.Errorf("reply %d: %v, want %v", i, a, b)
			return false
		}
		if a == "end" {
			return true
		}
	}
}
