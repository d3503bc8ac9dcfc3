package server

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// acceptRaw accepts connections of a TCP listener and hands their descriptors
// to the loops. The runtime waits for the listener; an accepted descriptor
// never enters the runtime's poller.
func (s *Server) acceptRaw(ln *net.TCPListener) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var backoff acceptBackoff
	for {
		var fd int
		var peer unix.Sockaddr
		var acceptErr error
		err := raw.Read(func(lfd uintptr) bool {
			fd, peer, acceptErr = unix.Accept4(int(lfd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return !errors.Is(acceptErr, unix.EAGAIN)
		})
		if err != nil {
			return err // the listener is closed
		}
		if acceptErr != nil {
			if err := s.acceptFailed(acceptErr, &backoff); err != nil {
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
		lp.lane.post(nil, func() { lp.add(fd, addr.String(), laddr.String()) })
	}
}

// setOptions prepares an accepted socket. A failure leaves a connection that
// works less well, which is no reason to refuse it.
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
