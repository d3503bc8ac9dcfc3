package compare

import (
	"bytes"
	"errors"
	"slices"

	"github.com/headgate-io/headgate/difftest/sequence"
)

// maxScan is far above the commands that a scan of a sequence's keys takes.
const maxScan = 100_000

// scan iterates until the cursor is 0 and returns what it found, without repetition and
// in order. Redis promises no more of a scan. If the first reply is an error, it returns
// that.
func scan(c *conn, s *sequence.Step) ([]byte, error) {
	width := 1
	if name := s.Name(); name == "HSCAN" || name == "ZSCAN" {
		width = 2
	}
	args := slices.Clone(s.Args)
	var found [][]byte
	for range maxScan {
		reply, err := c.do(args...)
		if err != nil {
			return nil, err
		}
		parts, ok := elements(reply)
		if !ok || len(parts) != 2 {
			return reply, nil
		}
		list, ok := elements(parts[1])
		if !ok || len(list)%width != 0 {
			return reply, nil
		}
		found = append(found, list...)
		args[s.Cursor] = text(parts[0])
		if args[s.Cursor] == "0" {
			return bytes.Join(slices.CompactFunc(sorted(found, width), bytes.Equal), nil), nil
		}
	}
	return nil, errors.New("the scan does not end")
}
