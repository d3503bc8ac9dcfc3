package keyspace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

func TestDiagnoseMemory(t *testing.T) {
	var st engine.Stats
	require.Contains(t, diagnoseMemory(st), "No limit is set")
	st.MaxBytes, st.Bytes = 100, 89
	require.Contains(t, diagnoseMemory(st), "No problem found: keys take 89%")
	st.Bytes = 90
	require.Contains(t, diagnoseMemory(st), "Keys take 90% of maxmemory")
	st.Evicted = 3
	require.Contains(t, diagnoseMemory(st), "3 keys that still mattered were evicted")
}
