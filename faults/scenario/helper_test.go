package scenario

import (
	"bufio"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/respclient"
)

// answering is a node that answers every command with what reply returns.
func answering(t *testing.T, reply func() string) *cluster.Node {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					if _, err := respclient.Read(in); err != nil {
						return
					}
					if _, err := c.Write([]byte(reply())); err != nil {
						return
					}
				}
			}()
		}
	}()
	return &cluster.Node{Process: &cluster.Process{Name: "n1", Addr: ln.Addr().String()}}
}
