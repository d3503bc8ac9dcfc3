package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatDoesNotStopIsLeftBehind(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	begin := time.Now()
	require.False(t, within(50*time.Millisecond, func() { <-never }))
	require.Less(t, time.Since(begin), 5*time.Second)
	require.True(t, within(time.Minute, func() {}))
}
