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
	var known sockets
	of := func(pids ...int) func() []int { return func() []int { return pids } }
	require.Zero(t, known.owner(inode, of(os.Getppid(), 0)))
	require.Equal(t, os.Getpid(), known.owner(inode, of(os.Getppid(), os.Getpid())))
	require.Equal(t, os.Getpid(), known.owner(inode, nil), "without another look")

	_, err = socketInode(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2})
	require.Error(t, err)
}
