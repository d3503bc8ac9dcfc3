package load

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/resp"
)

// A biller does not know whether its RL.RESERVE was executed. It repeats the call, and settles
// the hold that the answer names. With several groups, only that name has the slot.
func TestAnUnknownReserveIsRepeated(t *testing.T) {
	const hold = "bill;1.1;7365"
	var mu sync.Mutex
	reserves := map[string]int{} // by the whole command
	settled := map[string]bool{}
	addr := serve(t, func(cmd *resp.Reply) string {
		mu.Lock()
		defer mu.Unlock()
		var words []string
		for _, e := range cmd.Elems {
			words = append(words, e.Str)
		}
		switch words[0] {
		case "RL.RESERVE":
			line := strings.Join(words, " ")
			if reserves[line]++; reserves[line] == 1 {
				return "-UNCERTAIN the decision may have been taken\r\n"
			}
		case "RL.COMMIT", "RL.CANCEL":
			settled[words[1]] = true
		}
		return "*13\r\n:1\r\n:40\r\n:39\r\n:0\r\n:0\r\n:0\r\n$3\r\nlog\r\n$2\r\nok\r\n$13\r\n" + hold + "\r\n:1\r\n:2\r\n*0\r\n*0\r\n"
	})
	b := &biller{
		BillerConfig: &BillerConfig{
			Nodes: 1, Dial: func(int) string { return addr }, Epoch: time.Now(), Every: time.Millisecond, Life: time.Hour,
			Timeout: 10 * time.Second, Patient: 10 * time.Second,
		},
		rnd: rand.New(rand.NewPCG(1, 1)),
	}
	for {
		if bill := b.bill(); bill.Holds {
			require.Empty(t, bill.Differs)
			require.True(t, bill.Retried)
			require.Equal(t, []history.Outcome{history.Admitted, history.Admitted}, []history.Outcome{bill.Outcome, bill.Settled})
			break
		}
	}
	require.Len(t, reserves, 1, "one call, under one ID")
	require.Equal(t, map[string]bool{hold: true}, settled)
}
