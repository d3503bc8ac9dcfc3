package native_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/server"
)

// The servers of an oracle. All get the same calls of a script. redis-server
// and known get its own text, and interpreted a text that no server knows.
// mixed gets either, as from clients of two versions of a library.
const (
	redis = iota
	known
	interpreted
	mixed
	servers
)

var serverNames = [servers]string{"redis-server", "known", "interpreted", "mixed"}

// unknown makes a script's text into one that does the same and is not a known
// script. Lines keep their numbers.
func unknown(text string) string { return "local _ = 0 " + text }

// oracle is a redis-server and servers of ours on one clock, which stands until it
// is moved. So their replies can be the same to the byte, times to live included.
type oracle struct {
	t     testing.TB
	now   time.Time
	set   [servers]func(now time.Time)
	peers [servers]*peer
}

// newOracle returns a oracle whose clock stands at a whole millisecond.
func newOracle(t testing.TB) *oracle {
	r := &oracle{t: t, now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
	for i := range r.peers {
		var addr string
		if i == redis {
			addr, r.set[i] = redistest.StartStopped(t, r.now)
		} else {
			addr, r.set[i] = serve(t, r.now)
		}
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		r.peers[i] = &peer{nc, bufio.NewReader(nc)}
	}
	return r
}

// serve starts a server whose clock stands.
func serve(t testing.TB, now time.Time) (addr string, set func(now time.Time)) {
	clock, setNano := engine.NewManualClock(now.UnixNano())
	s, err := server.New(server.Config{Parts: server.One(engine.New(engine.Config{Clock: clock}), nil), IOThreads: 1})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, server.ErrClosed) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		<-done
	})
	return ln.Addr().String(), func(now time.Time) { setNano(now.UnixNano()) }
}

// move moves all clocks on.
func (r *oracle) move(by time.Duration) {
	r.now = r.now.Add(by)
	for _, set := range r.set {
		set(r.now)
	}
}

// do sends commands to a server and returns the bytes of each reply.
func (r *oracle) do(server int, commands ...[]string) []string {
	r.t.Helper()
	r.peers[server].send(r.t, commands)
	return r.peers[server].receive(r.t, commands)
}

// each sends each server its commands, and returns the replies of each: they
// work side by side.
func (r *oracle) each(to [servers][][]string) (replies [servers][]string) {
	r.t.Helper()
	for i, p := range r.peers {
		p.send(r.t, to[i])
	}
	for i, p := range r.peers {
		replies[i] = p.receive(r.t, to[i])
	}
	return replies
}

// toAll is the same commands for each server.
func toAll(commands ...[]string) (to [servers][][]string) {
	for i := range to {
		to[i] = commands
	}
	return to
}

// peer is a connection to a server.
type peer struct {
	net.Conn
	r *bufio.Reader
}

const (
	patience = 20 * time.Second // that a reply may take
	maxReply = 16 << 20         // bytes of a reply
)

func (p *peer) send(t testing.TB, commands [][]string) {
	t.Helper()
	var b []byte
	for _, c := range commands {
		b = resp.AppendCommand(b, c)
	}
	require.NoError(t, p.SetDeadline(time.Now().Add(patience)))
	_, err := p.Write(b)
	require.NoError(t, err)
}

func (p *peer) receive(t testing.TB, commands [][]string) (replies []string) {
	t.Helper()
	for _, c := range commands {
		reply, err := resp.AppendReply(nil, p.r, maxReply)
		require.NoError(t, err, "%q", c)
		replies = append(replies, string(reply))
	}
	return replies
}

// text is a script as a server gets it.
type text struct{ body, sha string }

func newText(body string) text { return text{body, script.Digest([]byte(body))} }

// texts are a script as each of the servers may get it: the last one of a row is
// also what mixed may get.
type texts struct{ own, unknown text }

func newTexts(body string) texts { return texts{newText(body), newText(unknown(body))} }

// of returns the text for a server; other is for mixed.
func (x *texts) of(server int, other bool) *text {
	if server == interpreted || server == mixed && other {
		return &x.unknown
	}
	return &x.own
}

// plain is a reply in which errors name the script alike.
func (x *texts) plain(reply string) string {
	return strings.ReplaceAll(reply, x.unknown.sha, x.own.sha)
}

// near returns the state of one of our servers. Times to live in ms that end in
// the year 2262, the latest of ours, become those of redis-server if those are
// longer. Both are of the moment at which all clocks stand.
func (r *oracle) near(theirs, ours string) string {
	last := time.Unix(0, math.MaxInt64-1).Sub(r.now)
	ms := int64((last + time.Millisecond - 1) / time.Millisecond)
	longest := fmt.Sprintf(":%d\r\n", ms)
	numbers := integer.FindAllString(theirs, -1)
	return integer.ReplaceAllStringFunc(ours, func(n string) string {
		if len(numbers) == 0 { // another reply altogether
			return n
		}
		of := numbers[0]
		numbers = numbers[1:]
		if left, err := strconv.ParseInt(of[1:len(of)-2], 10, 64); n == longest && err == nil && left > ms {
			return of
		}
		return n
	})
}

// integer is one in a reply.
var integer = regexp.MustCompile(`:-?\d+\r\n`)

// load makes all servers know the script.
func (r *oracle) load(x *texts) {
	for i := range r.peers {
		for _, tx := range []*text{x.of(i, false), x.of(i, true)} {
			require.Equal(r.t, fmt.Sprintf("$40\r\n%s\r\n", tx.sha), r.do(i, []string{"SCRIPT", "LOAD", tx.body})[0])
		}
	}
}

// stored is what keys hold in each server: type, time to live and value of each.
func (r *oracle) stored(keys []string) (states [servers]string) {
	var ask [][]string
	for _, k := range keys {
		ask = append(ask, []string{"TYPE", k}, []string{"PTTL", k})
	}
	replies := r.each(toAll(ask...))
	var read [servers][][]string
	for s := range read {
		for i, k := range keys {
			if values := map[string][]string{
				"+string\r\n": {"GET", k}, "+hash\r\n": {"HGETALL", k}, "+list\r\n": {"LRANGE", k, "0", "-1"},
				"+zset\r\n": {"ZRANGE", k, "0", "-1", "WITHSCORES"}, "+set\r\n": {"SMEMBERS", k},
			}; values[replies[s][2*i]] != nil {
				read[s] = append(read[s], values[replies[s][2*i]])
			}
		}
	}
	for s, values := range r.each(read) {
		states[s] = strings.Join(append(replies[s], values...), " ")
	}
	return states
}
