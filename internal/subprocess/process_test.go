package subprocess_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// timeout is far above what a process of a test takes.
const timeout = 20 * time.Second

func TestCommandLeavesOutParameters(t *testing.T) {
	t.Setenv("HEADGATE_LISTEN", "127.0.0.1:1")
	t.Setenv("OTHER", "HEADGATE_LISTEN")
	out, err := subprocess.Command("env").Output()
	require.NoError(t, err)
	lines := strings.Split(string(out), "\n")
	require.Contains(t, lines, "OTHER=HEADGATE_LISTEN")
	require.NotContains(t, lines, "HEADGATE_LISTEN=127.0.0.1:1")
}

// shell starts a script and waits until it prints "ready".
func shell(t *testing.T, script string) *subprocess.Process {
	t.Helper()
	var log logbuf.Buffer
	cmd := subprocess.Command("sh", "-c", script)
	cmd.Stdout = &log
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() }) // an error means that it has ended
	require.Eventually(t, func() bool { return log.String() == "ready\n" }, timeout, time.Millisecond)
	return p
}

const serve = "echo ready; while :; do sleep 0.01; done"

func TestStop(t *testing.T) {
	p := shell(t, "trap 'exit 0' TERM; "+serve)
	require.True(t, p.Running())
	require.NoError(t, p.Stop(timeout))
	require.False(t, p.Running())
	require.NoError(t, p.Wait())
	require.ErrorIs(t, p.Stop(timeout), os.ErrProcessDone)
	require.ErrorIs(t, p.Kill(), os.ErrProcessDone)

	require.ErrorContains(t, shell(t, "trap 'exit 3' TERM; "+serve).Stop(timeout), "exit status 3")
	deaf := shell(t, "trap '' TERM; "+serve)
	require.ErrorContains(t, deaf.Stop(50*time.Millisecond), "SIGTERM has not ended the process within 50ms")
	require.ErrorContains(t, deaf.Wait(), "killed")
}

func TestStopTellsOfACrash(t *testing.T) {
	p := shell(t, "echo ready; exit 2")
	<-p.Exited()
	require.ErrorContains(t, p.Stop(timeout), "exit status 2")
}

func TestKill(t *testing.T) {
	p := shell(t, serve)
	require.NoError(t, p.Kill())
	require.False(t, p.Running())
	require.ErrorContains(t, p.Wait(), "killed")
}

func TestStartOfNoProgram(t *testing.T) {
	_, err := subprocess.Start(subprocess.Command("/nowhere"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A goroutine that ends locked to its thread ends the thread too, but not the
// processes that it has started.
func TestTheCallersThreadMayEnd(t *testing.T) {
	started := make(chan *subprocess.Process)
	go func() {
		runtime.LockOSThread()
		p, _ := subprocess.Start(subprocess.Command("sleep", "60"))
		started <- p
	}()
	p := <-started
	require.NotNil(t, p)
	defer p.Kill()
	select {
	case <-p.Exited():
		t.Fatal("it has ended: ", p.Wait())
	case <-time.After(100 * time.Millisecond):
	}
}
