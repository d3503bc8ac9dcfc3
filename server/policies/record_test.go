package policies

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
)

// Nodes of feature levels 5 to 11 read exactly this. Another encoding needs a
// level, and a writer that asks for it.
func TestTheFormatOfRecordsIsThatOfTheLevels(t *testing.T) {
	st := stored{
		Version: 2, Revision: 3, At: 4, Author: "a", File: "f", Gone: true,
		Epochs: map[string]policy.LimitEpoch{"l": {Reset: 1, Proportion: 2, Forgiven: 3, Was: "token"}}, Text: "t",
	}
	const want = `{"format":2,"version":2,"revision":3,"at":4,"author":"a","file":"f","gone":true,` +
		`"epochs":{"l":{"Reset":1,"Proportion":2,"Forgiven":3,"Was":"token"}},"text":"t"}`
	require.Equal(t, want, string(st.encode()))
	fs := fileState{Text: "t", Path: "p", Node: "n", Nodes: []fileNode{{"n", "t"}}, Texts: []string{"t"}}
	require.Equal(t, `{"format":2,"text":"t","path":"p","node":"n","nodes":[{"id":"n","text":"t"}],"texts":["t"]}`, string(fs.encode()))
}
