package policies

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nodes offer texts. A new text is loaded, and only a change of a node's file rolls anything
// back.
func TestFilesOfNodes(t *testing.T) {
	var st fileState
	for i, step := range []struct {
		node, text string
		loads      bool
		inForce    string
	}{
		{"n1", "a", true, "a"},
		{"n1", "a", false, "a"}, // a restart
		{"n2", "a", false, "a"},
		{"n3", "a", false, "a"},
		{"n1", "b", true, "b"},  // a rollout begins
		{"n2", "a", false, "b"}, // a restart amid it
		{"n4", "a", false, "b"}, // a new node with the old file
		{"n2", "b", false, "b"}, // has it
		{"n3", "b", false, "b"},
		{"n4", "b", false, "b"},
		{"n3", "c", true, "c"}, // files that differ: the later change wins
		{"n1", "b", false, "c"},
		{"n1", "a", true, "a"}, // an old text that is put back is meant
		{"n1", "a", false, "a"},
	} {
		loads, _ := st.offer(step.node, "/"+step.node, step.text)
		require.Equal(t, step.loads, loads, "step %d", i)
		require.Equal(t, step.inForce, st.Text, "step %d", i)
		back, err := decodeFileState(st.encode())
		require.NoError(t, err)
		require.Equal(t, st, back)
	}
	require.Equal(t, "/n1", st.Path)
	require.Len(t, st.Nodes, 4)
	require.Len(t, st.Texts, 3)

	for i := range 2 * keptNodes {
		st.offer(fmt.Sprint("more", i), "/", fmt.Sprint("text", i))
	}
	require.Len(t, st.Nodes, keptNodes)
	require.Len(t, st.Texts, keptTexts)
	_, err := decodeFileState(fmt.Appendf(nil, `{"format":%d}`, storedFormat+1))
	require.ErrorIs(t, err, errStored)
}
