package command

import (
	"errors"
	"math"
	"strconv"

	"github.com/headgate-io/headgate/resp"
)

var (
	errDatabase    = errors.New("ERR DB index is out of range")
	errDatabaseInt = errors.New("ERR value is out of range, value must between " + strconv.Itoa(math.MinInt32) + " and " + strconv.Itoa(math.MaxInt32))
)

// ParseDatabase reads the number of a database, from 0 to count-1. Its errors are Redis's
// replies. If count is 1, alone is the error for any other database.
func ParseDatabase(b []byte, count int, alone string) (uint8, error) {
	n, ok := resp.ParseInt(b)
	switch {
	case !ok:
		return 0, ErrNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return 0, errDatabaseInt
	case count == 1 && n != 0:
		return 0, errors.New(alone)
	case n < 0 || n >= int64(count):
		return 0, errDatabase
	}
	return uint8(n), nil
}
