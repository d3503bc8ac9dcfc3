package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/internal/logdedup"
)

// listeners holds the ports of the server. A port that is off is nil.
type listeners struct {
	plain, secure, cluster, unix, http, grpc, peers net.Listener
}

func (l *listeners) close() {
	for _, one := range []net.Listener{l.plain, l.secure, l.cluster, l.unix, l.http, l.grpc, l.peers} {
		if one != nil {
			// An error means that the port's server has closed it.
			_ = one.Close()
		}
	}
}

// each calls fn with the ports that are on.
func (l *listeners) each(fn func(name string, port net.Listener)) {
	for _, port := range []struct {
		name     string
		listener net.Listener
	}{{"listen", l.plain}, {"tls", l.secure}, {"cluster", l.cluster}, {"unixsocket", l.unix}, {"http", l.http}, {"grpc", l.grpc}, {"peers", l.peers}} {
		if port.listener != nil {
			fn(port.name, port.listener)
		}
	}
}

// attrs returns the addresses of the ports, for the log.
func (l *listeners) attrs() (attrs []any) {
	l.each(func(name string, port net.Listener) { attrs = append(attrs, name, port.Addr().String()) })
	return attrs
}

// handshakeErrors calls fn with each TLS port and with the number of its failed handshakes.
func (l *listeners) handshakeErrors(fn func(port string, failed uint64)) {
	l.each(func(name string, port net.Listener) {
		if secure, ok := port.(*accept.Listener); ok {
			fn(name, secure.Errors())
		}
	})
}

// clientHandshakeErrors returns the number of failed handshakes of the Redis
// ports.
func (l *listeners) clientHandshakeErrors() (n uint64) {
	l.handshakeErrors(func(port string, failed uint64) {
		if port == "tls" || port == "cluster" {
			n += failed
		}
	})
	return n
}

// failedHandshakes returns a function that logs failed TLS handshakes of a port. A client's
// failure is the client's problem and is only a debug line; an operator must know if
// another node cannot connect.
func failedHandshakes(log *slog.Logger, peers bool) func(net.Addr, error) {
	if !peers {
		return func(from net.Addr, err error) { log.Debug("TLS handshake failed", "remote", from, "error", err) }
	}
	refused := &logdedup.Filter{MaxLines: 16}
	return func(from net.Addr, err error) {
		if errors.Is(err, io.EOF) {
			return // the other end has closed the connection
		}
		host, _, _ := net.SplitHostPort(from.String())
		refused.Warn(log, host, "refuse peer connection", "remote", from, "error", err)
	}
}

// listen opens either all ports of c or none. Its errors name the parameter.
func listen(c *config.Config, files reloaders, log *slog.Logger) (_ *listeners, err error) {
	l := new(listeners)
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	keepalive := net.ListenConfig{KeepAlive: c.TCPKeepalive}
	if c.TCPKeepalive == 0 {
		keepalive.KeepAlive = -1 // in net.ListenConfig, 0 would mean a default of 15 seconds
	}
	// Probe connections between nodes often. A node that dies silently leaves connections
	// open, and those of Raft would otherwise never end.
	peers := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	var errs []error
	secureName := "listen"
	if c.TLSListen != "" {
		secureName = "tls-listen"
	}
	clusterAddress, peerAddress := "", ""
	if c.Replicated() {
		clusterAddress, peerAddress = c.ClusterListen, c.PeerListen
	}
	var clusterTLS *certs.Reloader
	if c.ClusterTLS() {
		clusterTLS = files.clients
	}
	for _, port := range []struct {
		name, address string
		tls           *certs.Reloader
		into          *net.Listener
	}{
		{"listen", c.PlainListen(), nil, &l.plain},
		{secureName, c.SecureListen(), files.clients, &l.secure},
		{"cluster-listen", clusterAddress, clusterTLS, &l.cluster},
		{"http-listen", c.HTTPListen, files.http, &l.http},
		{"grpc-listen", c.GRPCListen, files.grpc, &l.grpc},
		{"peer-listen", peerAddress, files.peers, &l.peers},
	} {
		if port.address == "" {
			continue
		}
		config := keepalive
		if port.into == &l.peers {
			config = peers
		}
		tcp, err := config.Listen(context.Background(), "tcp", port.address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", port.name, err))
			continue
		}
		*port.into = tcp
		if port.tls == nil {
			continue
		}
		secure := port.tls.TLS()
		if port.into == &l.grpc {
			secure = port.tls.HTTP2()
		}
		*port.into = accept.NewListener(tcp, secure, failedHandshakes(log, port.into == &l.peers))
	}
	if c.UnixSocket != "" {
		if l.unix, err = listenUnix(c.UnixSocket, fs.FileMode(c.UnixSocketPerm)); err != nil {
			errs = append(errs, fmt.Errorf("unixsocket: %w", err))
		}
	}
	return l, errors.Join(errs...)
}

// listenUnix opens a unix socket with the permission bits perm; 0 leaves them to the umask.
// It replaces a socket that a killed server has left. It returns an error for a socket that
// answers, and for a file that is not a socket.
func listenUnix(name string, perm fs.FileMode) (net.Listener, error) {
	switch info, err := os.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s: %w and is not a socket", name, fs.ErrExist)
	default:
		if c, err := net.DialTimeout("unix", name, time.Second); err == nil {
			return nil, errors.Join(fmt.Errorf("%s: another server answers on it", name), c.Close())
		}
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, err
	}
	if perm != 0 {
		if err := os.Chmod(name, perm); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, nil
}
