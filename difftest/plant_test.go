package main

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/respclient"
)

// plant returns the address of a server that does what the server at addr does, except
// for the commands that change changes.
func plant(t *testing.T, addr string, change func(args []string) []string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, server)
			}()
			go func() {
				defer server.Close()
				for r := bufio.NewReader(client); ; {
					request, err := respclient.Read(r)
					if err != nil {
						return
					}
					var args []string
					for _, e := range request.Elems {
						args = append(args, e.Str)
					}
					if _, err := server.Write(respclient.Append(nil, change(args)...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}
