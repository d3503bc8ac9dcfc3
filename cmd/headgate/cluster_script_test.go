package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// When scripts/cluster.sh ends, its nodes and their data are gone, also those
// of a node that was killed and restarted by hand. The nodes only sleep: the
// script's ports may be taken.
func TestClusterScriptStopsItsNodes(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../scripts/cluster.sh")
	require.NoError(t, err)
	root := t.TempDir()
	path, headgate := filepath.Join(root, "scripts", "cluster.sh"), filepath.Join(root, "bin", "headgate")
	for file, text := range map[string]string{
		path:     string(script),
		headgate: "#!/usr/bin/env bash\n[ \"$1\" = cluster ] && exit\nmkdir -p \"$5\"\nwhile sleep 0.1; do :; done\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	}
	var out logbuf.Buffer
	cmd := subprocess.Command(path)
	cmd.Env = append(cmd.Env, "TMPDIR="+root)
	cmd.Stdout = &out
	// In the background of a script, this process ignores SIGINT. A shell that
	// begins so cannot trap it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	cluster := spawn(t, cmd)
	signal.Stop(interrupts)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "Ctrl-C") }, waitLimit, 10*time.Millisecond)
	dir := regexp.MustCompile(`Logs and data: +(\S+)`).FindStringSubmatch(out.String())[1]
	brought := spawn(t, subprocess.Command(headgate, "serve", "--node-id", "n1", "--data-dir", dir+"/n1"))
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/n2"); return err == nil }, waitLimit, 10*time.Millisecond)

	cluster.signal(t, syscall.SIGINT)
	require.NoError(t, cluster.wait(t))
	require.Error(t, brought.wait(t), "killed")
	require.NoDirExists(t, dir)
}
