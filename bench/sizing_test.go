package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHashSlot(t *testing.T) {
	assert.EqualValues(t, 12739, hashSlot([]byte("123456789")))
	assert.EqualValues(t, 12182, hashSlot([]byte("foo")))
	assert.Len(t, sizingKey(7), sizingKeyBytes)
}

// TestSizingPages compares the tables of predictions in the documents with what today's
// coefficients predict for the loads that were measured.
func TestSizingPages(t *testing.T) {
	text, err := os.ReadFile("results/size/results.json")
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(text, &r))
	var b strings.Builder
	writeSizing(r.Sizing, func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) })
	for _, page := range []string{"results/size/results.md", "../docs/scaling.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Contains(t, string(text), b.String(), page)
	}
}
