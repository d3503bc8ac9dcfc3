package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// Nothing of the client's input stays referred to after a call.
func TestLimitForgetsItsInput(t *testing.T) {
	r := newRig(t, engine.Config{})
	for _, line := range []string{"RL.LIMIT a 1 1 AND b 1 1", "RL.LIMIT a 1 1 AND b 1 x"} {
		r.words(line)
		for _, seg := range r.lane.call.Chain.Segs[:cap(r.lane.call.Chain.Segs)] {
			require.Nil(t, seg.Key, line)
		}
	}
}

// The paths that the benchmarks measure allocate nothing.
func TestHotPathsAllocateNothing(t *testing.T) {
	r := newRig(t, engine.Config{})
	for _, line := range []string{
		"CL.THROTTLE user:123 15 30 60",
		"CL.THROTTLE user:123 15 30 60 1",
		"THROTTLE user:crab 15 30 60",
		"RL.LIMIT user:1 100 60",
		"RL.LIMIT user:1 100 1m BURST 200 COST 2",
		"RL.LIMIT user:1 100 0.5",
		"RL.LIMIT user:2 100 1m30s ALGORITHM sliding",
		"RL.LIMIT user:3 100 60 ALGORITHM fixed ALIGN first PEEK",
		"RL.LIMIT user:1:s 100 1 AND user:1:d 1000 1d",
		"INCREX n BYINT 1 UBOUND 100 EX 60 ENX",
	} {
		in := []byte(encode(strings.Fields(line)...))
		call := func() {
			r.lane.begin()
			r.lane.mode &^= modeSample
			r.input(in)
			r.lane.takeOutput()
			r.lane.end()
		}
		for range 1000 { // rankings and buffers reach their size
			call()
		}
		require.Zero(t, testing.AllocsPerRun(200, call), line)
	}
}
