package compare

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/headgate-io/headgate/resp"
)

// elements returns the elements of an array, a set or a push, as they are on the wire.
// For a map it returns names and values in turns. It returns false for other replies,
// null included.
func elements(reply []byte) ([][]byte, bool) {
	switch reply[0] {
	case '*', '~', '>', '%':
	default:
		return nil, false
	}
	head := bytes.IndexByte(reply, '\n') + 1
	n, err := strconv.Atoi(string(reply[1 : head-2]))
	if err != nil || n < 0 {
		return nil, false
	}
	if reply[0] == '%' {
		n *= 2
	}
	list := make([][]byte, 0, n)
	for rest := reply[head:]; len(list) < n; {
		size, err := resp.ReplyLen(rest, maxReply)
		if err != nil || size == 0 {
			return nil, false
		}
		list = append(list, rest[:size])
		rest = rest[size:]
	}
	return list, true
}

// integer returns the number of an integer reply.
func integer(reply []byte) (int64, bool) {
	if reply[0] != ':' {
		return 0, false
	}
	return resp.ParseInt(reply[1 : len(reply)-2])
}

// sorted returns elements in order, those of width 2 as pairs.
func sorted(list [][]byte, width int) [][]byte {
	var cells [][]byte
	for cell := range slices.Chunk(list, width) {
		cells = append(cells, bytes.Join(cell, nil))
	}
	slices.SortFunc(cells, bytes.Compare)
	return cells
}

// show returns a reply as text, shortened if it is long.
func show(reply []byte) string {
	const most = 2000
	if len(reply) > most {
		return strconv.Quote(string(reply[:most])) + "… (" + strconv.Itoa(len(reply)) + " bytes)"
	}
	return strconv.Quote(string(reply))
}
