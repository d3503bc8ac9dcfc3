package logdedup

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepeatsAreBounded(t *testing.T) {
	var f Filter
	for i := range 10 * maxKeys {
		_, ok := f.admit(fmt.Sprint(i))
		require.True(t, ok)
		require.LessOrEqual(t, len(f.keys), maxKeys)
	}
}

func TestRepeatsOfManyKeys(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	f := Filter{MaxLines: 5}
	for i := range 100 {
		f.Warn(log, fmt.Sprint(i), "line")
	}
	require.Equal(t, 5, strings.Count(out.String(), "line"))
	f.begin = f.begin.Add(-Interval)
	f.Warn(log, "next", "line")
	require.Contains(t, out.String(), "left_out=95")
}
