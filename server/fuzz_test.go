package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// FuzzConnection feeds a connection anything at all: it must survive, keep its
// output bounded, and answer the next one.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		"PING\r\n", "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", "HELLO 3 AUTH a b SETNAME c\r\n", "MULTI\r\nINCREX n\r\nEXEC\r\n",
		"SUBSCRIBE a\r\nPSUBSCRIBE b*\r\nUNSUBSCRIBE\r\n", "CL.THROTTLE k 15 30 60 1\r\n", "RL.LIMIT a 10 60 COST 2 AND b 5 1m ALGORITHM log\r\n",
		"GCRA k 1 2 3 TOKENS 4\r\n", "THROTTLE k 1 2 3\r\n", "RL.ACQUIRE k 3 10 ID x\r\nRL.RELEASE k x\r\n", "INCREX k BYFLOAT 1.5\r\n",
		"CLIENT KILL ID 3\r\nCLIENT REPLY SKIP\r\n", "COMMAND GETKEYS RL.LIMIT a 1 1 AND b 1 1\r\n", "CONFIG GET *\r\n", "SCAN 0 MATCH [a-z]* COUNT 5\r\n",
		"SLOWLOG GET -1\r\nLATENCY HISTOGRAM ping\r\n", "WATCH a\r\nMULTI\r\nEXEC\r\n", "RESET\r\nQUIT\r\n", "RL.EXPLAIN k\r\nRL.TOP DENIED COUNT 3\r\n",
	} {
		f.Add([]byte(seed))
	}
	s, err := newServer(Config{Parts: One(engine.New(engine.Config{MaxBytes: 16 << 20}), nil), IOThreads: 1, Settings: newFakeSettings()}, nil)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMachine(s)
		m.feed(string(data))
		m.lane.runPosts()
		require.Less(t, m.out.Len(), 64<<20)
		m.kill()
		m.settle()
		m.lane.close()
		s.unpause()
	})
}
