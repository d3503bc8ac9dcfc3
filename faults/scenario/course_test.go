package scenario

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/faults/cluster"
)

// A node that says that its table differs from its log is a finding. So is a node whose log cannot be read.
func TestATableThatDiffersFromItsLogIsAFinding(t *testing.T) {
	dir := t.TempDir()
	var said, other bytes.Buffer
	slog.New(slog.NewJSONHandler(&said, nil)).Error("the node stops", "error", engine.ErrBase)
	slog.New(slog.NewJSONHandler(&other, nil)).Info("leader", "id", "n2")
	f := func(log []byte) []string {
		path := filepath.Join(dir, "n1.log")
		if log != nil {
			require.NoError(t, os.WriteFile(path, log, 0o644))
		}
		r := &Run{cluster: &cluster.Cluster{Nodes: []*cluster.Node{{Process: &cluster.Process{Name: "n1", Log: path}}}}}
		r.tableFaults()
		return (&Report{run: r}).Failed()
	}
	require.Equal(t, []string{"tables"}, f(nil))
	require.Empty(t, f(other.Bytes()))
	require.Equal(t, []string{"tables"}, f(append(other.Bytes(), said.Bytes()...)))
}
