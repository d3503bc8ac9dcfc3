package resp

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"
	"pgregory.net/rapid"
)

var full = Limits{MaxArgs: 1 << 20, MaxBulk: 1 << 20}

// feed parses stream as it arrives in pieces that end at the given positions,
// and returns the commands found and the first error.
func feed(stream []byte, lim *Limits, cuts []int) (commands [][]string, rest int, err error) {
	var p Parser
	var scratch [][]byte
	// In place unescaping must not reach the caller's bytes.
	stream = bytes.Clone(stream)
	start := 0
	for _, end := range append(cuts, len(stream)) {
		for {
			args, n, err := p.Next(stream[start:end], lim, scratch)
			if err != nil {
				return commands, len(stream) - start, err
			}
			if n == 0 {
				break
			}
			start += n
			var cmd []string
			for _, a := range args {
				cmd = append(cmd, string(a))
			}
			if len(cmd) > 0 {
				commands = append(commands, cmd)
			}
		}
	}
	return commands, len(stream) - start, nil
}

func everyByte(stream []byte) (cuts []int) {
	for i := range stream {
		cuts = append(cuts, i)
	}
	return cuts
}

func TestParserCommands(t *testing.T) {
	f := func(stream string, want ...[]string) {
		t.Helper()
		for _, cuts := range [][]int{nil, everyByte([]byte(stream))} {
			got, rest, err := feed([]byte(stream), &full, cuts)
			require.NoError(t, err, "%q", stream)
			require.Equal(t, want, got, "%q", stream)
			require.Zero(t, rest, "%q", stream)
		}
	}
	f("*1\r\n$4\r\nPING\r\n", []string{"PING"})
	f("*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n", []string{"ECHO", ""}, []string{"PING"})
	f("*0\r\n*-1\r\n\r\n\n*1\r\n$1\r\nx\r\n", []string{"x"})
	f("*1\r\n$12\r\nab\r\n$1\r\n*1\r\n\r\n", []string{"ab\r\n$1\r\n*1\r\n"})
	f("set  key\tvalue \r\n", []string{"set", "key", "value"})
	f(`set "a b" 'c d'`+"\n", []string{"set", "a b", "c d"})
	f(`x "\x41\n\"\q" '\'\n' a"b"`+"\r\n", []string{"x", "A\n\"q", `'\n`, "ab"})
	f("x \"\" ''\r\n", []string{"x", "", ""})
	f("*12\r\n"+strings.Repeat("$10\r\n0123456789\r\n", 12), strings.Split(strings.TrimSuffix(strings.Repeat("0123456789,", 12), ","), ","))
}

func TestParserErrors(t *testing.T) {
	strict := Limits{MaxArgs: 10, MaxBulk: 16 << 10}
	long := strings.Repeat("1", MaxInline+2)
	f := func(lim *Limits, stream string, want string) {
		t.Helper()
		for _, cuts := range [][]int{nil, {len(stream) / 2}, {len(stream) - 1}} {
			_, _, err := feed([]byte(stream), lim, cuts)
			require.EqualError(t, err, want, "%.40q", stream)
		}
	}
	f(&Unauthenticated, "*11\r\n", "Protocol error: unauthenticated multibulk length")
	f(&Unauthenticated, "*9223372036854775807\r\n", "Protocol error: invalid multibulk length")
	f(&Unauthenticated, "*1\r\n$16385\r\n", "Protocol error: unauthenticated bulk length")
	f(&strict, "*11\r\n", "Protocol error: invalid multibulk length")
	f(&strict, "*1\r\n$16385\r\n", "Protocol error: invalid bulk length")
	f(&strict, "*1\r\n$16385\r\n"+strings.Repeat("x", 16385)+"\r\n", "Protocol error: invalid bulk length")
	f(&strict, "*11\r\n"+strings.Repeat("$1\r\nx\r\n", 11), "Protocol error: invalid multibulk length")
	f(&full, "*x\r\n", "Protocol error: invalid multibulk length")
	f(&full, "*03\r\n", "Protocol error: invalid multibulk length")
	f(&full, "*+3\r\n", "Protocol error: invalid multibulk length")
	f(&full, "*99999999999999999999999\r\n", "Protocol error: invalid multibulk length")
	f(&full, "*1\r\n$-1\r\n", "Protocol error: invalid bulk length")
	f(&full, "*1\r\n$9223372036854775808\r\n", "Protocol error: invalid bulk length")
	f(&full, "*1\r\n:3\r\n", "Protocol error: expected '$', got ':'")
	f(&full, "*"+long, "Protocol error: too big mbulk count string")
	f(&full, "*1\r\n$"+long, "Protocol error: too big bulk count string")
	f(&full, long, "Protocol error: too big inline request")
	f(&full, long+"\r\n", "Protocol error: too big inline request")
	f(&full, "set \"a\r\n", "Protocol error: unbalanced quotes in request")
	f(&full, "set 'a'b\r\n", "Protocol error: unbalanced quotes in request")
}

// An argument is a view: it needs no allocation, and nothing can be appended to
// it in place.
func TestParserViews(t *testing.T) {
	stream := []byte("*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n*1\r\n$4\r\nPING\r\n")
	var p Parser
	args, n, err := p.Next(stream, &full, nil)
	require.NoError(t, err)
	require.Same(t, &stream[18], &args[1][0])
	require.Equal(t, len(args[1]), cap(args[1]))
	require.Equal(t, 25, n)
	scratch := make([][]byte, 0, 8)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for rest := stream; len(rest) > 0; {
			_, n, _ := p.Next(rest, &full, scratch)
			rest = rest[n:]
		}
	}))
}

// A command that arrives byte by byte is not parsed anew with every byte.
func TestParserIncompleteIsLinear(t *testing.T) {
	const args = 20_000
	stream := []byte("*20000\r\n" + strings.Repeat("$1\r\nx\r\n", args))
	got, rest, err := feed(stream, &full, everyByte(stream))
	require.NoError(t, err)
	require.Zero(t, rest)
	require.Len(t, got, 1)
	require.Len(t, got[0], args)
}

// However a stream is cut into pieces, the same commands come out.
func TestParserCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := drawStream(t)
		want, rest, err := feed(stream, &full, nil)
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(stream)), 0, 8).Draw(t, "cuts")
		slices.Sort(cuts)
		got, gotRest, gotErr := feed(stream, &full, cuts)
		require.Equal(t, err, gotErr)
		require.Equal(t, want, got)
		require.Equal(t, rest, gotRest)
	})
}

// drawStream draws commands, and then perhaps spoils a byte.
func drawStream(t *rapid.T) []byte {
	var stream []byte
	for range rapid.IntRange(0, 5).Draw(t, "commands") {
		if rapid.Bool().Draw(t, "inline") {
			stream = append(stream, rapid.StringMatching(`[a-z"' \\x0-9]{0,12}`).Draw(t, "line")...)
			stream = append(stream, "\r\n"...)
			continue
		}
		args := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 1, 6).Draw(t, "args")
		stream = redcon.AppendArray(stream, len(args))
		for _, a := range args {
			stream = redcon.AppendBulk(stream, a)
		}
	}
	if len(stream) > 0 && rapid.Bool().Draw(t, "spoil") {
		stream[rapid.IntRange(0, len(stream)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "with")
	}
	return stream
}

// FuzzParser checks on any bytes that cutting the stream changes nothing. It
// also checks that redcon finds the same commands as long as they are
// well-formed. Redis and this parser do not look at the byte after a CR, and
// quote inline words in their own ways.
func FuzzParser(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n"), uint16(3))
	f.Add([]byte("*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nPING\r\n"), uint16(9))
	f.Add([]byte("set \"a\\x41\" 'b'\r\n*0\r\n*-1\r\n"), uint16(5))
	f.Add([]byte("*9223372036854775807\r\n"), uint16(1))
	f.Add([]byte("*3\r\n$1\r\na\r\n$-1\r\n"), uint16(12))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		want, rest, err := feed(stream, &full, nil)
		got, gotRest, gotErr := feed(stream, &full, []int{int(cut) % (len(stream) + 1)})
		require.Equal(t, err, gotErr)
		require.Equal(t, want, got)
		require.Equal(t, rest, gotRest)
		if err != nil {
			return
		}
		theirs := bytes.Clone(stream)
		for _, cmd := range want {
			canonical := redcon.AppendArray(nil, len(cmd))
			for _, a := range cmd {
				canonical = redcon.AppendBulkString(canonical, a)
			}
			if !bytes.HasPrefix(theirs, canonical) {
				return
			}
			complete, args, _, left, err := redcon.ReadNextCommand(theirs, nil)
			require.NoError(t, err)
			require.True(t, complete)
			require.Len(t, args, len(cmd))
			for i := range args {
				require.Equal(t, cmd[i], string(args[i]))
			}
			require.Equal(t, theirs[len(canonical):], left)
			theirs = left
		}
	})
}

func TestParseInt(t *testing.T) {
	f := func(s string, want int64, ok bool) {
		t.Helper()
		got, gotOK := ParseInt([]byte(s))
		require.Equal(t, ok, gotOK, s)
		require.Equal(t, want, got, s)
	}
	f("0", 0, true)
	f("9223372036854775807", 1<<63-1, true)
	f("-9223372036854775808", -1<<63, true)
	f("-1", -1, true)
	for _, bad := range []string{"", "-", "-0", "00", "01", "+1", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999", "1x"} {
		f(bad, 0, false)
	}
}

// BenchmarkParser compares what a connection does with a batch, and with a long
// command that arrives in pieces, with redcon's reader: see DESIGN.md.
func BenchmarkParser(b *testing.B) {
	batch := bytes.Repeat([]byte("*6\r\n$11\r\nCL.THROTTLE\r\n$16\r\nkey:000000000001\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n$1\r\n1\r\n"), 16)
	long := []byte("*10001\r\n$3\r\nDEL\r\n" + strings.Repeat("$16\r\nkey:000000000001\r\n", 10_000))
	const piece = 16 << 10
	scratch := make([][]byte, 0, 8)
	ours := func(p *Parser, buf []byte) int {
		_, n, _ := p.Next(buf, &full, scratch)
		return n
	}
	redcons := func(_ *Parser, buf []byte) int {
		_, _, _, left, _ := redcon.ReadNextCommand(buf, scratch)
		return len(buf) - len(left)
	}
	for _, reader := range []struct {
		name string
		next func(*Parser, []byte) int
	}{{"own", ours}, {"redcon", redcons}} {
		b.Run("batch/"+reader.name, func(b *testing.B) {
			var p Parser
			b.ReportAllocs()
			for b.Loop() {
				for rest := batch; len(rest) > 0; {
					rest = rest[reader.next(&p, rest):]
				}
			}
		})
		b.Run("pieces/"+reader.name, func(b *testing.B) {
			var p Parser
			b.ReportAllocs()
			for b.Loop() {
				for end, n := 0, 0; n == 0; {
					end = min(end+piece, len(long))
					n = reader.next(&p, long[:end])
				}
			}
		})
	}
}

// Room for the arguments of a command that has come in pieces is made once:
// a loop waits for it.
func TestManyArgumentsAreMovedOnce(t *testing.T) {
	const n = 10_000
	data := []byte("*10000\r\n" + strings.Repeat("$1\r\nx\r\n", n))
	var parsers [10]Parser // each of which has all but the last byte
	for i := range parsers {
		_, used, err := parsers[i].Next(data[:len(data)-1], &full, nil)
		require.Zero(t, used)
		require.NoError(t, err)
	}
	next := 0
	allocs := testing.AllocsPerRun(len(parsers)-1, func() {
		args, used, err := parsers[next].Next(data, &full, nil)
		if next++; len(args) != n || used != len(data) || err != nil {
			t.Error(len(args), used, err)
		}
	})
	require.LessOrEqual(t, allocs, 2.0) // one, and under the race detector slices.Grow takes another
}
