package raftlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// testLog returns a logger and its lines, without times.
func testLog() (*slog.Logger, func() []string) {
	var b bytes.Buffer
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(h), func() []string {
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		b.Reset()
		return lines
	}
}

// Lines of every start are no warnings; a lost leader is one.
func TestRaftLogOfANormalStart(t *testing.T) {
	l, logged := testLog()
	r := newRaftLogger(l)
	r.Warn("heartbeat timeout reached, starting election", "last-leader-addr", raft.ServerAddress(""), "last-leader-id", raft.ServerID(""))
	r.Warn("no known peers, aborting election")
	require.Equal(t, []string{""}, logged())
	r.Warn("heartbeat timeout reached, starting election", "last-leader-addr", raft.ServerAddress("a:1"), "last-leader-id", raft.ServerID("n1"))
	require.Equal(t, []string{`level=WARN msg="raft: heartbeat timeout reached, starting election" last-leader-addr=a:1 last-leader-id=n1`}, logged())
}

// A line has no key twice: Raft's keys that are ours as well get a prefix.
func TestRaftLogHasNoKeyTwice(t *testing.T) {
	l, logged := testLog()
	newRaftLogger(l).Warn("failed to contact", "server-id", "time", "time", time.Second)
	require.Equal(t, []string{`level=WARN msg="raft: failed to contact" server-id=time raft_time=1s`}, logged())
}

func TestRaftLogLeavesOutRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, logged := testLog()
		r := newRaftLogger(l)
		for i := range 100 { // 25 s
			r.Error("failed to heartbeat to", "peer", raft.ServerAddress("a:1"), "backoff time", i, "error", errors.New("down"))
			r.With("x", 1).Error("failed to appendEntries to", "peer", raft.Server{ID: "b"}, "error", errors.New("down"))
			time.Sleep(250 * time.Millisecond)
		}
		r.Error("failed to heartbeat to", "peer", raft.ServerAddress("c:1"), "backoff time", 0, "error", errors.New("down"))
		require.Equal(t, []string{
			`level=WARN msg="raft: failed to heartbeat to" peer=a:1 "backoff time"=0 error=down`,
			`level=WARN msg="raft: failed to appendEntries to" x=1 peer="{Suffrage:Voter ID:b Address:}" error=down`,
			`level=WARN msg="raft: failed to heartbeat to" peer=a:1 "backoff time"=40 error=down left_out=39`,
			`level=WARN msg="raft: failed to appendEntries to" x=1 peer="{Suffrage:Voter ID:b Address:}" error=down left_out=39`,
			`level=WARN msg="raft: failed to heartbeat to" peer=a:1 "backoff time"=80 error=down left_out=39`,
			`level=WARN msg="raft: failed to appendEntries to" x=1 peer="{Suffrage:Voter ID:b Address:}" error=down left_out=39`,
			`level=WARN msg="raft: failed to heartbeat to" peer=c:1 "backoff time"=0 error=down`,
		}, logged())
	})
}
