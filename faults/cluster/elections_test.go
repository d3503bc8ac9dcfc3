package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Neither the first leader of a group was elected because of a loss, nor one that got the group by a handover.
func TestElectionsAreThoseAfterALoss(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lines := map[string]string{}
	line := func(node string, group, term, second int, msg, to string) {
		lines[node] += fmt.Sprintf(`{"time":%q,"msg":%q,"node":%q,"group":%d,"term":%d,"to":%q}`+"\n", began.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano), msg, node, group, term, to)
	}
	const serves, hands = "serving as leader", "handing leadership over"
	line("n1", 0, 2, 1, serves, "")
	line("n2", 1, 3, 2, serves, "")
	line("n1", 0, 2, 3, hands, "n2") // as planned
	line("n2", 0, 3, 4, serves, "")
	line("n2", 1, 3, 5, hands, "n1") // but another was elected
	line("n3", 1, 4, 6, serves, "")
	line("n3", 0, 5, 7, serves, "") // without a handover
	lines["n1"] += "panic: no JSON\n"

	c := &Cluster{}
	for node, text := range lines {
		path := filepath.Join(t.TempDir(), node)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c.Nodes = append(c.Nodes, &Node{Process: &Process{Log: path}})
	}
	found, err := c.Elections()
	require.NoError(t, err)
	require.Equal(t, []Election{{1, began.Add(6 * time.Second), "n2"}, {0, began.Add(7 * time.Second), "n2"}}, found)
}
