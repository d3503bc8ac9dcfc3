package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// acceptCheck is how soon the acceptor notices that other code has closed its listener.
// Shutdown wakes it at once.
const acceptCheck = time.Second

// acceptRaw accepts connections of a TCP listener and passes their descriptors to the
// loops. The descriptors never enter the Go runtime's poller. acceptRaw polls a duplicate
// of the listener's descriptor, because the runtime lets no other code wait for its
// listeners.
func (s *Server) acceptRaw(ln *net.TCPListener, moves bool) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	watched, stop, err := watchable(raw)
	if err != nil {
		return err
	}
	defer unix.Close(watched)
	defer unix.Close(stop)
	accepting := make(chan struct{})
	defer func() { <-accepting }()
	over := make(chan struct{})
	defer close(over)
	go func() {
		defer close(accepting)
		select {
		case <-s.end:
			one := [8]byte{1}
			_, _ = unix.Write(stop, one[:]) // the counter cannot be full
		case <-over:
		}
	}()
	var backoff acceptBackoff
	fds := []unix.PollFd{{Fd: int32(watched), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, int(acceptCheck/time.Millisecond)); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll listener: %w", err)
		}
		select {
		case <-s.end:
			return net.ErrClosed
		default:
		}
		if err := s.acceptReady(raw, moves, &backoff); err != nil {
			return err
		}
	}
}

// watchable returns a duplicate of a listener's descriptor, and an eventfd that wakes the
// goroutine which waits for it.
func watchable(raw syscall.RawConn) (watched, stop int, err error) {
	if ctlErr := raw.Control(func(fd uintptr) {
		watched, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	}); ctlErr != nil {
		return 0, 0, ctlErr
	}
	if err != nil {
		return 0, 0, fmt.Errorf("duplicate listener: %w", err)
	}
	if stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(watched)
		return 0, 0, fmt.Errorf("create eventfd: %w", err)
	}
	return watched, stop, nil
}

// acceptReady accepts the connections that wait. An error ends the acceptor.
func (s *Server) acceptReady(raw syscall.RawConn, moves bool, backoff *acceptBackoff) error {
	for {
		var fd int
		var peer unix.Sockaddr
		var acceptErr error
		if err := raw.Control(func(lfd uintptr) {
			fd, peer, acceptErr = unix.Accept4(int(lfd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		}); err != nil {
			return err // the listener is closed
		}
		if errors.Is(acceptErr, unix.EAGAIN) {
			return nil
		}
		if acceptErr != nil {
			if err := s.acceptFailed(acceptErr, backoff); err != nil {
				return err
			}
			continue
		}
		backoff.reset()
		addr := addrPort(peer)
		if refusal := s.admit(addr.Addr().IsLoopback()); refusal != "" {
			_, _ = unix.Write(fd, []byte(refusal)) // best effort, the buffer is empty
			unix.Close(fd)
			continue
		}
		s.setOptions(fd)
		var laddr netip.AddrPort
		if local, err := unix.Getsockname(fd); err == nil {
			laddr = addrPort(local)
		}
		lp := s.loops[s.nextLoop.Add(1)%uint64(len(s.loops))]
		lp.lane.post(nil, func() { lp.add(fd, moves, addr.String(), laddr.String()) })
	}
}

// setOptions sets the options of an accepted socket. It ignores failures, because the
// connection still works without the options, only less well.
func (s *Server) setOptions(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if every := int(s.cfg.TCPKeepAlive / time.Second); every > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, every)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, max(every/3, 1))
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3)
	}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
