package scenario

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The audit must see a unit that was taken from one account and not given to another.
func TestAuditSeesATornTransfer(t *testing.T) {
	var torn atomic.Bool
	n := answering(t, func() string {
		reply := fmt.Sprintf("*7\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n*%d\r\n", accounts)
		for i := range accounts {
			left := deposit
			if torn.Load() && i == 3 {
				left--
			}
			reply += fmt.Sprintf("*6\r\n:1\r\n:%d\r\n:%d\r\n:0\r\n:0\r\n:0\r\n", account, left)
		}
		return reply
	})
	var a audit
	require.NoError(t, a.once(n))
	require.Zero(t, a.wrong)
	torn.Store(true)
	require.NoError(t, a.once(n))
	require.Equal(t, 1, a.wrong)
	require.EqualValues(t, accounts*deposit+1, a.last)
}
