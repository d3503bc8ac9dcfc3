package compare

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Difference is a difference between replies that is no mistake.
type Difference struct {
	Commands []string // in upper case
	Reason   string
	// same reports whether two replies differ in no more than that. waited
	// says that keys may have expired.
	same func(args []string, oracle, subject []byte, waited bool) bool
}

// Documented are all differences between replies that are allowed. What is in
// no row is compared byte for byte.
var Documented = []Difference{
	{
		Commands: []string{"TTL", "EXPIRETIME"},
		Reason:   "The second server gets a command later than the first, perhaps in the next second.",
		same:     within(1),
	},
	{
		Commands: []string{"PTTL", "PEXPIRETIME"},
		Reason:   "The second server gets a command some milliseconds later than the first.",
		same:     within(500),
	},
	{
		Commands: []string{"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"},
		Reason:   "Headgate keeps time in nanoseconds: what expires after the year 2262 expires then.",
		same: func(args []string, oracle, subject []byte, _ bool) bool {
			const year = 365 * 86400
			a, ok := integer(oracle)
			b, ok2 := integer(subject)
			unit := int64(1)
			if strings.HasPrefix(strings.ToUpper(args[0]), "P") {
				unit = 1000
			}
			return ok && ok2 && a > b && b > 200*year*unit
		},
	},
	{
		Commands: []string{"SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS"},
		Reason:   "Redis promises no order: it replies that of its hash tables, or of numbers.",
		same:     sameUnordered,
	},
	{
		Commands: []string{"RANDOMKEY", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "SPOP"},
		Reason:   "The server chooses at random. The number of elements is compared.",
		same:     sameShape,
	},
	{
		Commands: []string{"ZADD", "ZINCRBY", "ZSCORE", "ZMSCORE", "ZRANGE", "ZREVRANGE", "ZRANGEBYSCORE", "ZREVRANGEBYSCORE", "ZPOPMIN", "ZPOPMAX", "ZSCAN"},
		Reason:   "Redis keeps the sign of a score of -0, which equals 0, in a sorted set that is not small.",
		same: func(_ []string, oracle, subject []byte, _ bool) bool {
			return bytes.Equal(unsignedZero(oracle), unsignedZero(subject))
		},
	},
	{
		Commands: []string{"ZSCAN"},
		Reason:   "Redis writes scores from 1e17 on with an exponent in a sorted set that once was not small, though it has become so.",
		same: func(_ []string, oracle, subject []byte, _ bool) bool {
			return bytes.Equal(shortScores(oracle), shortScores(subject))
		},
	},
	{
		Commands: []string{"DBSIZE"},
		Reason:   "A key whose life is over, or was at its beginning, is counted until the server finds it.",
		same: func(_ []string, oracle, subject []byte, waited bool) bool {
			return waited && oracle[0] == ':' && subject[0] == ':'
		},
	},
	{
		Commands: []string{"HELLO"},
		Reason:   "The reply names the server and its version.",
		same: func(_ []string, oracle, subject []byte, _ bool) bool {
			_, ok := elements(oracle)
			_, ok2 := elements(subject)
			return ok && ok2 && oracle[0] == subject[0]
		},
	},
	{
		Commands: []string{"NOSUCHCOMMAND"},
		Reason:   "Redis shows an argument of an unknown command up to its first zero byte.",
		same: func(args []string, oracle, subject []byte, _ bool) bool {
			const begin = "-ERR unknown command"
			return strings.Contains(strings.Join(args, ""), "\x00") &&
				bytes.HasPrefix(oracle, []byte(begin)) && bytes.HasPrefix(subject, []byte(begin))
		},
	},
	{
		Commands: []string{"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"},
		Reason:   "Redis ends a status or an error that a script returns at its first zero byte.",
		same: func(_ []string, oracle, subject []byte, _ bool) bool {
			text, _, found := bytes.Cut(subject, []byte{0})
			return found && bytes.Equal(oracle, append(bytes.Clone(text), "\r\n"...))
		},
	},
	{
		Commands: []string{"EVAL", "EVAL_RO", "SCRIPT"},
		Reason:   "What is wrong with the syntax of a script is said in other words.",
		same: func(_ []string, oracle, subject []byte, _ bool) bool {
			const begin = "-ERR Error compiling script (new function): user_script:"
			return bytes.HasPrefix(oracle, []byte(begin)) && bytes.HasPrefix(subject, []byte(begin))
		},
	},
}

// same reports whether two replies of a command are equal, or differ as is
// documented.
func same(args []string, oracle, subject []byte, waited bool) bool {
	if bytes.Equal(oracle, subject) {
		return true
	}
	if len(args) == 0 {
		return false
	}
	name := strings.ToUpper(args[0])
	for i := range Documented {
		d := &Documented[i]
		if slices.Contains(d.Commands, name) && d.same(args, oracle, subject, waited) {
			return true
		}
	}
	return false
}

// within returns a comparison of integers that are at most so far apart. Zero and
// negative ones are signs, not times, and never pass.
func within(most int64) func([]string, []byte, []byte, bool) bool {
	return func(_ []string, oracle, subject []byte, _ bool) bool {
		a, ok := integer(oracle)
		b, ok2 := integer(subject)
		return ok && ok2 && a > 0 && b > 0 && max(a-b, b-a) <= most
	}
}

// unsignedZero returns a reply with 0 for each -0.
func unsignedZero(reply []byte) []byte {
	reply = bytes.ReplaceAll(reply, []byte("$2\r\n-0\r\n"), []byte("$1\r\n0\r\n"))
	return bytes.ReplaceAll(reply, []byte(",-0\r\n"), []byte(",0\r\n"))
}

// shortScores returns a reply with an exponent in each integer that needs one in
// 17 digits, up to 2^62.
func shortScores(reply []byte) []byte {
	return largeInteger.ReplaceAllFunc(reply, func(bulk []byte) []byte {
		digits := bytes.TrimSpace(bulk[bytes.IndexByte(bulk, '\n'):])
		f, _ := strconv.ParseFloat(string(digits), 64)
		text := strconv.FormatFloat(f, 'g', 17, 64)
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
	})
}

var largeInteger = regexp.MustCompile(`\$\d\d\r\n-?\d{18,19}\r\n`)

func sameUnordered(_ []string, oracle, subject []byte, _ bool) bool {
	a, ok := elements(oracle)
	b, ok2 := elements(subject)
	return ok && ok2 && oracle[0] == subject[0] && slices.EqualFunc(sorted(a, 1), sorted(b, 1), bytes.Equal)
}

func sameShape(_ []string, oracle, subject []byte, _ bool) bool {
	a, ok := elements(oracle)
	b, ok2 := elements(subject)
	return oracle[0] == subject[0] && oracle[0] != '-' && ok == ok2 && len(a) == len(b)
}
