package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/headgate-io/headgate/raftlog/wal"
)

// logFile is the file that a node is appending its log to.
func (n *Node) logFile() (string, error) {
	found, err := filepath.Glob(filepath.Join(n.Data, "group-*", "log-*"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no log files below %s", n.Data)
	}
	if err != nil {
		return "", err
	}
	return found[len(found)-1], nil // they are numbered
}

// TearTail does to a stopped node's log what a power loss does in the middle of the last write. The last sector of that
// write is as it was before. That write is then gone, and the one before it is the last.
func (n *Node) TearTail() error {
	const sector = 512
	path, err := n.logFile()
	if err != nil {
		return err
	}
	at, err := wal.Frames(path)
	if err != nil || len(at) < 2 {
		return err
	}
	from, to := at[len(at)-2], at[len(at)-1]
	return n.damage(func(f *os.File, _ int64) error {
		from = max(from, (to-1)/sector*sector)
		_, err := f.WriteAt(make([]byte, to-from), from)
		return err
	})
}

// Truncate cuts a stopped node's log to the first half of its bytes, as a file system does that loses the latest
// writes.
func (n *Node) Truncate() error {
	return n.damage(func(f *os.File, written int64) error { return f.Truncate(written / 2) })
}

// damage harms the file that was appended to last. Behind what is written there are zeros.
func (n *Node) damage(harm func(f *os.File, written int64) error) (err error) {
	path, err := n.logFile()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return harm(f, int64(len(bytes.TrimRight(b, "\x00"))))
}

// Wipe deletes a stopped node's data.
func (n *Node) Wipe() error {
	entries, err := os.ReadDir(n.Data)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.Data, e.Name())))
	}
	return err
}
