package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// After a start in a terminal, the server shows what to type next, and it works.
func TestATerminalIsToldWhatToTypeNext(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	require.NotContains(t, start(t).stderr.String(), "try: ")

	args := []string{"serve", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"}
	shown, _ := onTerminal(t, args...)
	words := suggested(t, shown)
	require.Equal(t, []string{"RL.LIMIT", "user:42", "10", "1s"}, words[len(words)-4:])
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1\n10\n9\n", string(out[:min(len(out), 7)]), "%s", out)

	shown, _ = onTerminal(t, append(args, "--requirepass=secret")...)
	require.Equal(t, "--askpass", suggested(t, shown)[1])

	shown, p := onTerminal(t, append(args, "--log-format=json")...)
	require.Eventually(t, func() bool { return strings.Contains(shown.String(), `"ready"`) }, waitLimit, time.Millisecond)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(shown.String(), `"stopping"`) }, waitLimit, time.Millisecond)
	require.NotContains(t, shown.String(), "try: ")
}

// suggested waits for the line that says what to type, and returns its words.
func suggested(t *testing.T, shown *logbuf.Buffer) []string {
	t.Helper()
	var typed string
	require.Eventually(t, func() bool {
		_, after, found := strings.Cut(shown.String(), "try: ")
		line, _, whole := strings.Cut(after, "\n")
		typed = strings.TrimSpace(line)
		return found && whole
	}, waitLimit, time.Millisecond, "%s", shown)
	return strings.Fields(typed)
}

// onTerminal starts a server whose standard error is a terminal, and returns what the
// terminal shows.
func onTerminal(t *testing.T, args ...string) (*logbuf.Buffer, *subprocess.Process) {
	t.Helper()
	tty, _, shown := terminal(t)
	defer tty.Close()

	cmd := command(t, args...)
	cmd.Stderr = tty
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() }) // an error means that it has ended
	return shown, p
}

// terminal opens a terminal, and returns its program's side, its user's side, and what it
// shows.
func terminal(t *testing.T) (tty, screen *os.File, shown *logbuf.Buffer) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { screen.Close() })
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	shown = new(logbuf.Buffer)
	go func() { _, _ = io.Copy(shown, screen) }() // ends with an error when all programs have ended
	return tty, screen, shown
}
