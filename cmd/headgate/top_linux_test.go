package main

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/internal/logbuf"
)

// viewer is a run of top in a terminal.
type viewer struct {
	*process
	tty, screen *os.File
	shown       *logbuf.Buffer
	was         unix.Termios
}

// watch starts top in a terminal of 100 columns and 30 rows.
func watch(t *testing.T, server *process, env ...string) *viewer {
	t.Helper()
	v := new(viewer)
	v.tty, v.screen, v.shown = terminal(t)
	t.Cleanup(func() { v.tty.Close() })
	require.NoError(t, unix.IoctlSetWinsize(int(v.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}))
	was, err := unix.IoctlGetTermios(int(v.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	v.was = *was
	cmd := command(t, "top", "--url=http://"+server.http)
	cmd.Stdin, cmd.Stdout = v.tty, v.tty
	cmd.Env = append(cmd.Env, env...)
	v.process = spawn(t, cmd)
	return v
}

// frames returns the frames that were shown, as text.
func (v *viewer) frames() []string {
	frames := strings.Split(v.shown.String(), "\x1b[H")
	for i := range frames {
		frames[i] = strings.ReplaceAll(frames[i], "\x1b[K\r\n", "\n")
	}
	return frames[1:]
}

// newest waits until the newest frame matches, or does not match.
func (v *viewer) newest(t *testing.T, pattern string, want bool) string {
	t.Helper()
	var last string
	require.Eventually(t, func() bool {
		if all := v.frames(); len(all) > 0 {
			last = all[len(all)-1]
		}
		return strings.HasSuffix(last, "\x1b[J") && regexp.MustCompile(pattern).MatchString(last) == want
	}, waitLimit, 10*time.Millisecond, pattern)
	return last
}

// left requires that the terminal is as it was.
func (v *viewer) left(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.HasSuffix(v.shown.String(), "\x1b[?7h\x1b[?25h\x1b[?1049l") }, waitLimit, time.Millisecond)
	is, err := unix.IoctlGetTermios(int(v.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, v.was, *is)
}

// In a terminal, top shows a frame per second that fits, says loudly while the server does
// not answer, and leaves the terminal as it was, after q and after Ctrl-C.
func TestTopInATerminal(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	server, _ := startDemo(t, t.TempDir())
	v := watch(t, server)
	frame := v.newest(t, `customer=scraper[^\n]* api customer(?s:.*)denied   api customer`, true)
	require.Contains(t, frame, "\x1b[1mheadgate v0.0.0-test  n1 leads")
	lines := strings.Split(frame, "\n")
	require.LessOrEqual(t, len(lines), 30)
	for _, l := range lines {
		l = regexp.MustCompile("\x1b\\[[0-9;]*[a-zA-Z]").ReplaceAllString(l, "")
		require.LessOrEqual(t, len([]rune(l)), 100, l)
	}
	require.NotContains(t, frame, "NO ANSWER")

	require.NoError(t, server.Signal(syscall.SIGSTOP))
	v.newest(t, `\x1b\[1;37;41mNO ANSWER for [1-9]\d*s, the figures are old`, true)
	require.NoError(t, server.Signal(syscall.SIGCONT))
	v.newest(t, `NO ANSWER`, false)

	_, err := v.screen.WriteString("xq")
	require.NoError(t, err)
	require.NoError(t, v.wait(t))
	v.left(t)

	v = watch(t, server, "NO_COLOR=1")
	v.newest(t, `allowed`, true)
	require.NotContains(t, v.shown.String(), "\x1b[1m")
	v.interrupt(t)
	v.left(t)

	v = watch(t, server)
	v.newest(t, `allowed`, true)
	server.interrupt(t)
	v.newest(t, `NO ANSWER for \d+s, the figures are old: .* connection refused`, true)
	v.interrupt(t)
	v.left(t)
}
