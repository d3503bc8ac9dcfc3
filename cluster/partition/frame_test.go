package partition

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// scriptedLeader answers the commands of every stream, except for its greetings,
// with answer's result for their arguments; an empty answer ends the stream.
func scriptedLeader(t *testing.T, answer func(command string) string) func(context.Context) (net.Conn, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go serveScript(nc, answer)
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
}

func serveScript(nc net.Conn, answer func(string) string) {
	defer nc.Close()
	var p resp.Parser
	var in []byte
	for r := bufio.NewReader(nc); ; {
		b, err := r.ReadByte()
		if err != nil {
			return
		}
		in = append(in, b)
		args, used, err := p.Next(in, &resp.Limits{MaxArgs: 100, MaxBulk: 1 << 20}, nil)
		if err != nil {
			return
		}
		if used == 0 {
			continue
		}
		words := make([]string, len(args))
		for i, a := range args {
			words[i] = string(a)
		}
		in = in[used:]
		reply := "+hello\r\n"
		if words[0] != "HELLO" {
			reply = answer(strings.Join(words, " "))
		}
		if reply == "" {
			return
		}
		if _, err := nc.Write([]byte(reply)); err != nil {
			return
		}
	}
}

// frameOf returns a frame whose items are these commands, and a channel that is
// closed when it is done.
func frameOf(commands ...string) (*Frame, chan struct{}) {
	done := make(chan struct{})
	fr := &Frame{Done: func() { close(done) }}
	for _, c := range commands {
		fr.Begin(0)
		fr.Append(words(c))
	}
	return fr, done
}

func words(command string) [][]byte {
	var args [][]byte
	for _, w := range strings.Fields(command) {
		args = append(args, []byte(w))
	}
	return args
}

func await(t *testing.T, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("the frame is not done")
	}
}

func TestFramesAreAnsweredByTheLeader(t *testing.T) {
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string { return "+" + c + "\r\n" })
	p := fakePartition(t, f, FailClosed)
	fr, done := frameOf("INCREX a", "TTL a")
	fr.Begin(2)
	for _, c := range []string{"MULTI", "TTL b", "EXEC"} {
		fr.Append(words(c))
	}
	require.Equal(t, words("TTL a"), fr.Args(1))
	require.Equal(t, words("MULTI"), fr.Args(2))
	require.True(t, p.Forward(fr))
	await(t, done)
	require.Equal(t, Answered, fr.End())
	require.Equal(t, 3, fr.Replied())
	for i, want := range []string{"+INCREX a\r\n", "+TTL a\r\n", "+EXEC\r\n"} {
		require.Equal(t, want, string(fr.Reply(i)))
	}
}

// A sent command without a reply is uncertain, from the first such item on.
func TestAFrameEndsUnknownWhereItsRepliesEnd(t *testing.T) {
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(c string) string {
		if c == "B" {
			return ""
		}
		return "+" + c + "\r\n"
	})
	fr, done := frameOf("A", "B", "C")
	require.True(t, fakePartition(t, f, FailClosed).Forward(fr))
	await(t, done)
	require.Equal(t, Unknown, fr.End())
	require.Equal(t, 1, fr.Replied())
}

// Commands that were not sent go back to a node that leads, and are not executed
// if no leader is known.
func TestAFrameThatIsNotSentIsNotExecuted(t *testing.T) {
	f := newFake(Handover)
	p := fakePartition(t, f, FailClosed)
	fr, done := frameOf("A")
	require.True(t, p.Forward(fr))
	f.become(Leading)
	await(t, done)
	require.Equal(t, Ours, fr.End())
	require.Equal(t, "*1\r\n$1\r\nA\r\n", string(fr.From(0)))

	f.become(Orphaned)
	p = fakePartition(t, f, FailClosed)
	fr, done = frameOf("A")
	require.True(t, p.Forward(fr))
	await(t, done)
	require.Equal(t, Unwritten, fr.End())
}

// After a refusal by the leader, it is as if nothing had been sent: the next
// leader answers.
func TestARefusedFrameIsSentAgain(t *testing.T) {
	f := newFake(Following)
	times := 0
	f.dial = scriptedLeader(t, func(c string) string {
		if c != "B" {
			return "+" + c + "\r\n"
		}
		if times++; times < 3 {
			return "-" + TextNotLeader + "\r\n"
		}
		return "+then\r\n"
	})
	fr, done := frameOf("A", "B")
	require.True(t, fakePartition(t, f, FailClosed).Forward(fr))
	await(t, done)
	require.Equal(t, Answered, fr.End())
	require.Equal(t, "+then\r\n", string(fr.Reply(1)))
}

// A leader that is lost, heard again and lost once more may answer slow
// commands for as long after the second loss.
func TestALeaderLostTwiceIsWaitedForFromTheSecondLoss(t *testing.T) {
	const wait = 2 * time.Second
	sent, silent := make(chan struct{}), make(chan struct{})
	defer close(silent)
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(string) string {
		close(sent)
		<-silent
		return ""
	})
	p := New(Config{
		Engine: engine.New(engine.Config{}), Replication: f, Front: new(quietFront), Logger: slog.New(slog.DiscardHandler),
		ForwardTimeout: wait, HandoverWait: patience, MostReply: 1 << 20, MaxArgs: 1 << 20,
	})
	defer p.Close()
	fr, done := frameOf("WAIT 1 0")
	fr.Slow = true
	require.True(t, p.Forward(fr))
	await(t, sent)
	lose := func() {
		f.become(Orphaned)
		p.LeaderLost()
	}
	lose()
	f.become(Following)
	time.Sleep(wait / 2)
	second := time.Now()
	lose()
	await(t, done)
	require.Equal(t, Unknown, fr.End())
	require.GreaterOrEqual(t, time.Since(second), wait)
}

// A node that refuses a command refuses the ones after it until the node that forwards
// begins anew, which it says with RL.CLIENT: a frame is executed in its order.
func TestAFrameRefusedByAHandoverBeginsAnew(t *testing.T) {
	f := newFake(Following)
	var got []string
	refusing := false
	f.dial = scriptedLeader(t, func(c string) string {
		switch {
		case strings.HasPrefix(c, "RL.CLIENT"):
			refusing = false
			return "+OK\r\n"
		case c == "B" && len(got) == 1:
			refusing = true
			got = append(got, "refused")
			return "-" + TextHandover + "\r\n"
		case refusing: // by now it leads again
			return "-" + TextNotLeader + "\r\n"
		}
		got = append(got, c)
		return "+" + c + "\r\n"
	})
	fr, done := frameOf("A", "B", "C")
	require.True(t, fakePartition(t, f, FailClosed).Forward(fr))
	await(t, done)
	require.Equal(t, Answered, fr.End())
	require.Equal(t, "+C\r\n", string(fr.Reply(2)))
	require.Equal(t, []string{"A", "refused", "B", "C"}, got)
}

// An error of a command's own that begins as a refusal is its reply.
func TestOnlyARefusalIsSentAgain(t *testing.T) {
	f := newFake(Following)
	f.dial = scriptedLeader(t, func(string) string { return "-TRYAGAIN policies are being changed\r\n" })
	fr, done := frameOf("A")
	require.True(t, fakePartition(t, f, FailClosed).Forward(fr))
	await(t, done)
	require.Equal(t, Answered, fr.End())
	require.Equal(t, "-TRYAGAIN policies are being changed\r\n", string(fr.Reply(0)))
}
