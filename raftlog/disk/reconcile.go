package disk

import (
	"fmt"
	"io"
	"log/slog"
)

// Reconcile checks, before Raft starts, that log and snapshots form one history. A crash
// while a snapshot is installed may leave a log whose entries were never committed;
// Reconcile drops such a log. fresh says that log, term and vote have just been created.
// readable reads the beginning of a snapshot, and returns why this build cannot use it.
func Reconcile(snaps *Snapshots, logs *Log, fresh bool, readable func(io.Reader) error, log *slog.Logger) error {
	first, err := logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := logs.LastIndex()
	if err != nil {
		return err
	}
	metas, err := snaps.List()
	if err != nil {
		return err
	}
	lost, err := snaps.Damaged(metas)
	if err != nil {
		return err
	}
	if fresh && (lost > 0 || len(metas) > 0) {
		return fmt.Errorf("%w: there are snapshots, but neither term nor vote; "+Wipe, ErrCorrupt)
	}
	for _, m := range metas {
		_, rc, err := snaps.Open(m.ID) // verifies the checksum
		if err != nil {
			log.Error("snapshot is unreadable, trying the one before", "snapshot", m.ID, "error", err)
			lost = max(lost, m.Index)
			continue
		}
		err = readable(rc)
		rc.Close()
		if err != nil {
			// Otherwise Raft would use an older snapshot. The log no longer has the entries
			// that follow that one.
			return fmt.Errorf("snapshot %s: %w", m.ID, err)
		}
		if first > m.Index+1 {
			return fmt.Errorf("%w: it begins at %d, the snapshot ends at %d; "+Wipe, ErrGap, first, m.Index)
		}
		if last < lost && lost > m.Index {
			return fmt.Errorf("%w: the snapshot that ends at %d is unreadable, and the log ends at %d; "+Wipe, ErrGap, lost, last)
		}
		conflict, err := contradicts(logs, m.Index, m.Term)
		if err != nil {
			return err
		}
		if conflict || (last > 0 && last < m.Index) {
			log.Warn("dropping a log that a newer snapshot has replaced", "first", first, "last", last, "snapshot", m.Index)
			return logs.DeleteRange(first, last)
		}
		return nil
	}
	if lost > 0 {
		return fmt.Errorf("%w: no snapshot is readable; "+Wipe, ErrCorrupt)
	}
	if first > 1 {
		return fmt.Errorf("%w: it begins at %d and there is no snapshot; "+Wipe, ErrGap, first)
	}
	return nil
}
