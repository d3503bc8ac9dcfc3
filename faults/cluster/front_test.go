package cluster

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSocketsAreToldApartByTheirProcess(t *testing.T) {
	ln, err := net.Listen("tcp", host()+":0")
	require.NoError(t, err)
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	s, err := ln.Accept()
	require.NoError(t, err)
	defer s.Close()

	inode, err := socketInode(s.RemoteAddr().(*net.TCPAddr), s.LocalAddr().(*net.TCPAddr))
	require.NoError(t, err)
	require.True(t, holds(os.Getpid(), inode))
	require.False(t, holds(os.Getppid(), inode))
	require.False(t, holds(0, inode))

	_, err = socketInode(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2})
	require.Error(t, err)
}
