package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The kernel's interface for questions about sockets: sock_diag(7). Reading /proc/net/tcp instead walks the table of
// all connections. That costs 80 ms of system time once a run has left some ten thousand of them.
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20
	requestSize      = 56 // struct inet_diag_req_v2
	answerInode      = 68 // offset of idiag_inode in struct inet_diag_msg
	anyCookie        = ^uint32(0)
)

// socketInode returns the inode of a connected socket of this machine, seen from the end that has the address local.
func socketInode(local, remote *net.TCPAddr) (uint32, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		return 0, fmt.Errorf("ask for a socket: %w", err)
	}
	defer syscall.Close(fd)
	timeout := syscall.NsecToTimeval(int64(time.Second))
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		return 0, err
	}
	if err := syscall.Sendto(fd, diagRequest(local, remote), 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask for a socket: %w", err)
	}
	b := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, fmt.Errorf("ask for a socket: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(b[:n])
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if m.Header.Type == sockDiagByFamily && len(m.Data) >= answerInode+4 {
			return binary.NativeEndian.Uint32(m.Data[answerInode:]), nil
		}
	}
	return 0, errors.New("no such socket")
}

// diagRequest asks for one IPv4 TCP socket in any state.
func diagRequest(local, remote *net.TCPAddr) []byte {
	b := make([]byte, 0, syscall.NLMSG_HDRLEN+requestSize)
	b = binary.NativeEndian.AppendUint32(b, uint32(cap(b)))
	b = binary.NativeEndian.AppendUint16(b, sockDiagByFamily)
	b = binary.NativeEndian.AppendUint16(b, syscall.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and sender, which the kernel fills in
	b = append(b, syscall.AF_INET, syscall.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, ^uint32(0)) // states
	b = binary.BigEndian.AppendUint16(b, uint16(local.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(remote.Port))
	b = append(append(b, local.IP.To4()...), make([]byte, 12)...)
	b = append(append(b, remote.IP.To4()...), make([]byte, 12)...)
	b = binary.NativeEndian.AppendUint32(b, 0) // any interface
	b = binary.NativeEndian.AppendUint32(b, anyCookie)
	return binary.NativeEndian.AppendUint32(b, anyCookie)
}

// sockets knows which process has which socket open. To look costs as much as the processes have files, so one look
// serves all connections that wait for it.
type sockets struct {
	looks atomic.Int64 // that have begun

	mu     sync.Mutex
	owners map[uint32]int // process by inode, as of the last look
}

// owner returns which of the processes has a socket open, 0 if none does. The kernel does not use the inode of a closed
// socket again soon.
func (s *sockets) owner(inode uint32, processes func() []int) int {
	before := s.looks.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, known := s.owners[inode]
	if known || s.looks.Load() != before { // if it is not known, it was open when a look began, and has been closed
		return pid
	}
	s.looks.Add(1)
	s.owners = make(map[uint32]int)
	for _, p := range processes() {
		s.look(p)
	}
	return s.owners[inode]
}

// look notes the sockets that a process has open.
func (s *sockets) look(pid int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil { // it has ended
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		to, err := os.Readlink(dir + "/" + name)
		if err != nil {
			continue
		}
		if n, ok := strings.CutPrefix(to, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(n, "]"), 10, 32); err == nil {
				s.owners[uint32(inode)] = pid
			}
		}
	}
}
