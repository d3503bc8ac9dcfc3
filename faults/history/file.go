package history

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Save writes the history into dir: events.txt, and calls.csv.gz with one line per call.
func (h *History) Save(dir string) error {
	if err := h.saveEvents(filepath.Join(dir, "events.txt")); err != nil {
		return err
	}
	if err := h.saveEdits(filepath.Join(dir, "edits.csv")); err != nil {
		return err
	}
	return h.saveCalls(filepath.Join(dir, "calls.csv.gz"))
}

// saveEdits writes no file if no policy was edited.
func (h *History) saveEdits(path string) error {
	if len(h.Edits) == 0 {
		return nil
	}
	b := []byte("start_us,end_us,kind,policy,base,version,amounts,resets,user,until_us,outcome,acknowledged\n")
	for i := range h.Edits {
		e := &h.Edits[i]
		b = fmt.Appendf(b, "%d,%d,%v,%s,%d,%d,%d,%t,%s,%d,%v,%t\n", e.Start/1000, e.End/1000, e.Kind, e.Policy, e.Base, e.Version, e.Amounts,
			e.Resets, e.User, e.Until/1000, e.Outcome, e.Acknowledged)
	}
	return os.WriteFile(path, b, 0o644)
}

func (h *History) saveEvents(path string) error {
	var b []byte
	for _, e := range h.Events {
		b = fmt.Appendf(b, "%9.3f s  %s\n", time.Duration(e.At).Seconds(), e.Text)
	}
	return os.WriteFile(path, b, 0o644)
}

func (h *History) saveCalls(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	zip, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(zip, 1<<16)
	w.WriteString("due_us,late_us,start_us,end_us,node,kind,key,other,limit,cost,outcome,remaining,local,version,binding\n")
	var b []byte
	for i := range h.Calls {
		b = h.appendCall(b[:0], &h.Calls[i])
		w.Write(b) // bufio keeps the first error for Flush
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return zip.Close()
}

func (h *History) appendCall(b []byte, c *Call) []byte {
	num := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ',') }
	str := func(s string) { b = append(append(b, s...), ',') }
	num(c.Due / 1000)
	num(c.Late / 1000)
	num(c.Start / 1000)
	num(c.End / 1000)
	num(int64(c.Node) + 1)
	str(c.Kind.String())
	str(h.Keys[c.Key].Name)
	if c.Kind.Double() {
		str(h.Keys[c.Other].Name)
	} else {
		num(int64(c.Other))
	}
	num(int64(c.Limit))
	num(int64(c.Cost))
	str(c.Outcome.String())
	num(int64(c.Remaining))
	b = append(strconv.AppendBool(b, c.Local), ',')
	num(int64(c.Version))
	return append(strconv.AppendUint(b, uint64(c.Binding), 10), '\n')
}
