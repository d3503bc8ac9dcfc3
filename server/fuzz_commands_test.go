package server

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/cputime"
	"github.com/headgate-io/headgate/server/command"
)

// FuzzCommands feeds scripts to a connection without a socket. It must not panic, and each
// command must have exactly one reply, in the connection's protocol.
//
// A line of a script is a command, its words separated by single spaces. A first word that
// names no command stands for a command that its hash picks, so that few inputs are wasted on
// unknown commands. After a question mark the word stays as it is. "@ms" moves the clock.
func FuzzCommands(f *testing.F) {
	clock, set := engine.NewManualClock(rigStart)
	e := engine.New(engine.Config{Shards: 4, MaxBytes: 1 << 20, Clock: clock, LogMaxEntries: 64})
	s := newTestServer(f, Config{Parts: One(e, nil), Settings: newFakeSettings()}, func() uint64 { return 1 })
	names := fuzzedCommands(s.table)
	f.Add(false, "CL.THROTTLE k 15 30 60\nRL.LIMIT k 10 60 COST 2\n@1500\nRL.EXPLAIN k")
	for _, hostile := range []string{
		"INCREX k BYFLOAT 1e-300000", "INCREX k BYFLOAT 1 UBOUND 1e-600000000", "INCREX k BYFLOAT " + strings.Repeat("9", 4900) + "e-9000",
		"INCREX k BYFLOAT 1e4900\nINCREX k BYFLOAT 1e4900",
		"INCREX " + strings.Repeat("a", 60_000) + "\nSCAN 0 MATCH *" + strings.Repeat("a", 32_000) + "b\nSCAN 0 MATCH *" + strings.Repeat("a", 1000) + "b",
		"INCREX " + strings.Repeat("a", 60_000) + "\nSCAN 0 MATCH *" + strings.Repeat("?", 1000) + "b*",
		"COMMAND INFO" + strings.Repeat(" client", 2000), "LATENCY HISTOGRAM" + strings.Repeat(" client", 2000),
		"MULTI" + strings.Repeat("\nCOMMAND DOCS", 100) + "\nEXEC",
		"CONFIG GET" + strings.Repeat(" *", 2000), "PUBSUB NUMSUB" + strings.Repeat(" a", 2000),
		"RL.LIMIT k 10 " + strings.Repeat("1h", 3000), "RL.LIMIT k 10 0." + strings.Repeat("1", 5000),
	} {
		f.Add(true, hostile)
	}
	flusher := e.NewSession()
	f.Fuzz(func(t *testing.T, resp3 bool, script string) {
		runtime.LockOSThread() // threadTime
		defer runtime.UnlockOSThread()
		flusher.Flush()
		now := rigStart
		set(now)
		m := newMachine(s)
		m.resp3 = resp3
		for line := range strings.SplitSeq(script, "\n") {
			if ms, ok := strings.CutPrefix(line, "@"); ok {
				if n, err := strconv.ParseUint(ms, 10, 40); err == nil {
					now += int64(n) * int64(time.Millisecond) / 1000
					set(now)
				}
				continue
			}
			if args := fuzzedArgs(s.table, names, line); args != nil {
				requireOneReply(t, m, args)
			}
			if m.ending == closes {
				break
			}
		}
		m.kill()
		m.settle()
		m.lane.close()
	})
}

// fuzzedCommands returns the full names of the commands that reply once, at
// once, and to themselves only.
func fuzzedCommands(t *command.Table) (names []string) {
	t.Each(func(cmd *command.Spec) {
		switch {
		case strings.HasPrefix(cmd.Full, "test."), strings.HasSuffix(cmd.Full, "subscribe"):
		case slices.Contains([]string{"monitor", "client|reply", "client|pause", "debug|sleep"}, cmd.Full):
		default:
			names = append(names, cmd.Full)
		}
	})
	return names
}

// fuzzedArgs returns the command that a line stands for, nil for none.
func fuzzedArgs(t *command.Table, names []string, line string) []string {
	args := strings.Split(line, " ")
	if args[0] == "" {
		return nil
	}
	full := ""
	words := make([][]byte, len(args))
	for i, a := range args {
		words[i] = []byte(a)
	}
	switch cmd := t.Find(words); {
	case args[0][0] == '?':
		return args
	case cmd != nil:
		full = cmd.Full
	case t.Find(words[:1]) != nil: // an unknown subcommand
		return args
	default:
		h := fnv.New32()
		h.Write(words[0])
		full = names[h.Sum32()%uint32(len(names))]
		args = append(strings.Split(full, "|"), args[1:]...)
	}
	if !slices.Contains(names, full) {
		return nil
	}
	return args
}

// requireOneReply runs one command and checks what comes back, and what it
// cost the thread.
func requireOneReply(t *testing.T, m *machine, args []string) {
	t.Helper()
	before := m.resp3
	input := encode(args...)
	cpu, allocated := cputime.Thread(), allocatedBytes()
	m.feed(input)
	require.Less(t, cputime.Thread()-cpu, costTime+time.Duration(len(input))*costTimePerByte, "%.100q", args)
	require.Less(t, allocatedBytes()-allocated, uint64(costBytes+len(input)*costBytesPerByte), "%.100q", args)
	for deadline := time.Now().Add(patience); m.stall&stallWorker != 0; m.lane.runPosts() {
		require.True(t, time.Now().Before(deadline), "%q hangs", args)
	}
	out := []byte(m.take())
	if m.killed {
		return
	}
	require.Zero(t, m.stall, "%q", args)
	replies := 0
	for rest := out; len(rest) > 0; {
		if rest[0] != '>' {
			replies++
		}
		var err error
		rest, err = skipReply(rest, before && m.resp3, before || m.resp3)
		require.NoError(t, err, "%q replied %q", args, out)
	}
	require.Equal(t, 1, replies, "%q replied %q", args, out)
}

// Bounds of the time that a command may take on its thread: a millisecond, a little for each
// byte, and as much again for the fuzzer's instrumentation.
const (
	costTime         = 20 * time.Millisecond
	costTimePerByte  = 2 * time.Microsecond
	costBytes        = 2 << 20
	costBytesPerByte = 256
)

// allocatedBytes is how much the process has allocated.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// skipReply returns what follows the reply that b begins with, or what is wrong
// with it. Nulls and types that only the other protocol has are wrong; RESP2's
// are when only3 is set, RESP3's unless with3 is.
func skipReply(b []byte, only3, with3 bool) (rest []byte, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 || bytes.ContainsAny(line, "\r\n") {
		return nil, errors.New("no line")
	}
	kind, text := line[0], string(line[1:])
	if strings.IndexByte("%~_,#=>", kind) >= 0 && !with3 {
		return nil, fmt.Errorf("type %c in RESP2", kind)
	}
	n, numErr := strconv.ParseInt(text, 10, 64)
	switch kind {
	case '+':
		return rest, nil
	case '-':
		if code, _, _ := strings.Cut(text, " "); code == "" || code != strings.ToUpper(code) {
			return nil, fmt.Errorf("error %q without a code", text)
		}
		return rest, nil
	case ':':
		return rest, numErr
	case ',':
		_, err := strconv.ParseFloat(text, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // a long double
		}
		return rest, err
	case '_':
		if text != "" {
			return nil, errors.New("null with a value")
		}
		return rest, nil
	case '#':
		if text != "t" && text != "f" {
			return nil, errors.New("neither true nor false")
		}
		return rest, nil
	}
	if numErr != nil {
		return nil, numErr
	}
	if n < 0 {
		if n != -1 || kind != '$' && kind != '*' || only3 {
			return nil, fmt.Errorf("size %d", n)
		}
		return rest, nil
	}
	switch kind {
	case '$', '=':
		if int64(len(rest)) < n+2 || string(rest[n:n+2]) != "\r\n" {
			return nil, errors.New("wrong size of a string")
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, fmt.Errorf("unknown type %q", kind)
	}
	for ; n > 0; n-- {
		if rest, err = skipReply(rest, only3, with3); err != nil {
			return nil, err
		}
	}
	return rest, nil
}
