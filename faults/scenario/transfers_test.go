package scenario

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/respclient"
)

// The audit must see a unit that was taken from one account and not given to another.
func TestAuditSeesATornTransfer(t *testing.T) {
	torn := false
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := respclient.Read(bufio.NewReader(c)); err == nil {
				reply := fmt.Sprintf("*7\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n*%d\r\n", accounts)
				for i := range accounts {
					left := deposit
					if torn && i == 3 {
						left--
					}
					reply += fmt.Sprintf("*6\r\n:1\r\n:%d\r\n:%d\r\n:0\r\n:0\r\n:0\r\n", account, left)
				}
				c.Write([]byte(reply))
			}
			c.Close()
		}
	}()
	n := &cluster.Node{Process: &cluster.Process{Addr: ln.Addr().String()}}
	var a audit
	require.NoError(t, a.once(n))
	require.Zero(t, a.wrong)
	torn = true
	require.NoError(t, a.once(n))
	require.Equal(t, 1, a.wrong)
	require.EqualValues(t, accounts*deposit+1, a.last)
}
