package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

func TestIncrExIntegers(t *testing.T) {
	const most, least = "9223372036854775807", "-9223372036854775808"
	for _, c := range []struct{ start, args, want string }{
		{"", "", "[1 1]"},
		{"", "BYINT 7", "[7 7]"},
		{"10", "", "[11 1]"},
		{"100", "BYINT -10", "[90 -10]"},
		{"95", "BYINT 0", "[95 0]"},
		// Out of bounds: nothing happens, whichever way the call goes.
		{"10", "BYINT 10 UBOUND 15", "[10 0]"},
		{"10", "BYINT -10 LBOUND 5", "[10 0]"},
		{"50", "BYINT 5 UBOUND 30", "[50 0]"},
		{"50", "BYINT -5 UBOUND 30", "[50 0]"},
		{"50", "BYINT -25 UBOUND 30", "[25 -25]"},
		{"10", "BYINT 5 LBOUND 20", "[10 0]"},
		{"5", "BYINT 5 UBOUND 10", "[10 5]"},
		{"5", "BYINT 2 LBOUND 0 UBOUND 10", "[7 2]"},
		{"", "UBOUND 0", "[0 0]"},
		{"", "BYINT 5 LBOUND 10", "[0 0]"},
		// SATURATE stops at the bound, even backwards.
		{"50", "BYINT 100 UBOUND 80 SATURATE", "[80 30]"},
		{"10", "BYINT -100 LBOUND 0 SATURATE", "[0 -10]"},
		{"10", "BYINT 5 UBOUND 5 SATURATE", "[5 -5]"},
		{"10", "BYINT -5 LBOUND 20 SATURATE", "[20 10]"},
		{"", "LBOUND 5 SATURATE", "[5 5]"},
		{"10", "LBOUND 10 UBOUND 10 SATURATE", "[10 0]"},
		// The type has bounds too.
		{most, "BYINT 1", "[" + most + " 0]"},
		{"9223372036854775800", "BYINT 9223372036854775800 SATURATE", "[" + most + " 7]"},
		{"-9223372036854775800", "BYINT " + least + " SATURATE", "[" + least + " -8]"},
		{"10", "BYINT " + most + " UBOUND 100 SATURATE", "[100 90]"},
		{"10", "BYINT " + most + " UBOUND 100", "[10 0]"},
		{most, "BYINT -5 UBOUND " + least + " SATURATE", "-ERR applied increment would overflow"},
	} {
		r := rig.New(t, engine.Config{})
		if c.start != "" {
			r.Words("INCREX k BYINT " + c.start)
		}
		r.Is("INCREX k "+c.args, c.want)
		if c.want == "[0 0]" {
			r.Is("EXISTS k", "0")
		}
	}
	r := rig.New(t, engine.Config{})
	r.Is("INCREX k UBOUND 0 SATURATE", "[0 0]")
	r.Is("EXISTS k", "1")
}

func TestIncrExFloats(t *testing.T) {
	for _, c := range []struct{ start, args, want string }{
		{"", "BYFLOAT 0.1", "[0.1 0.1]"},
		{"1.5", "BYFLOAT 0.25", "[1.75 0.25]"},
		{"10", "BYFLOAT 2.5 LBOUND 5.0 UBOUND 15.0", "[12.5 2.5]"},
		{"10", "BYFLOAT 5.5 UBOUND 12.5", "[10 0]"},
		{"10", "BYFLOAT 100 UBOUND 42.5 SATURATE", "[42.5 32.5]"},
		{"0", "BYFLOAT -100 LBOUND -5.5 SATURATE", "[-5.5 -5.5]"},
		{"50.5", "BYFLOAT 5.5 UBOUND 30 SATURATE", "[30 -20.5]"},
		{"10", "BYFLOAT 1e3", "[1010 1000]"},
		{"10", "BYFLOAT 1.0 UBOUND inf LBOUND -inf", "[11 1]"},
		{"10", "BYFLOAT 1.0 LBOUND -inf UBOUND -inf", "[10 0]"},
		{"10", "BYFLOAT 1.0 LBOUND inf UBOUND inf SATURATE", "-ERR applied increment would be Infinity"},
		{"10", "BYFLOAT +inf", "-ERR BYFLOAT increment cannot be Infinity"},
	} {
		r := rig.New(t, engine.Config{})
		if c.start != "" {
			r.Words("INCREX k BYFLOAT " + c.start)
		}
		r.Is("INCREX k "+c.args, c.want)
	}
	r := rig.New(t, engine.Config{})
	r.Is("INCREX k BYFLOAT 1.5", "[1.5 1.5]")
	r.Is("INCREX k BYINT 1", "-ERR value is not an integer or out of range")
	r.Is("INCREX k BYFLOAT 0.5", "[2 0.5]")
	r.Is("INCREX k BYINT 1", "[3 1]")
}

// BYINT replies integers, BYFLOAT doubles, which RESP2 has not.
func TestIncrExReplies(t *testing.T) {
	r := rig.New(t, engine.Config{})
	require.Equal(t, "*2\r\n:5\r\n:5\r\n", r.Raw("INCREX", "i", "BYINT", "5"))
	require.Equal(t, "*2\r\n$3\r\n2.5\r\n$3\r\n2.5\r\n", r.Raw("INCREX", "f", "BYFLOAT", "2.5"))
	require.Equal(t, "*2\r\n$1\r\n6\r\n$1\r\n1\r\n", r.Raw("INCREX", "i", "BYFLOAT", "1"))
	r.Raw("HELLO", "3")
	require.Equal(t, "*2\r\n:7\r\n:1\r\n", r.Raw("INCREX", "i"))
	require.Equal(t, "*2\r\n,5\r\n,2.5\r\n", r.Raw("INCREX", "f", "BYFLOAT", "2.5"))
	require.Equal(t, "*2\r\n,0\r\n,0\r\n", r.Raw("INCREX", "g", "BYFLOAT", "2.5", "UBOUND", "1"))
}

func TestIncrExExpiry(t *testing.T) {
	at := func(d time.Duration, unit time.Duration) string {
		return fmt.Sprint((rig.Start + int64(d)) / int64(unit))
	}
	r := rig.New(t, engine.Config{})
	run(r, []step{
		{0, "INCREX k", "[1 1]"},
		{0, "TTL k", "-1"},
		{0, "INCREX k EX 100", "[2 1]"},
		{0, "PTTL k", "100000"},
		{1000, "INCREX k", "[3 1]"},
		{1000, "PTTL k", "99000"},
		{1000, "INCREX k PX 1500 ENX", "[4 1]"},
		{1000, "PTTL k", "99000"},
		{1000, "INCREX k PX 1500", "[5 1]"},
		{1000, "PTTL k", "1500"},
		{1000, "INCREX k PERSIST", "[6 1]"},
		{1000, "PTTL k", "-1"},
		{1000, "INCREX k EX 5 ENX", "[7 1]"},
		{1000, "TTL k", "5"},
		// A call out of bounds leaves the time to live alone.
		{1000, "INCREX k UBOUND 5 EX 100", "[7 0]"},
		{1000, "INCREX k UBOUND 5 PERSIST", "[7 0]"},
		{1000, "TTL k", "5"},
		{1000, "INCREX k EXAT " + at(10*time.Second, time.Second), "[8 1]"},
		{1000, "TTL k", "9"},
		{1000, "INCREX k PXAT " + at(9*time.Second, time.Millisecond), "[9 1]"},
		{1000, "PTTL k", "8000"},
		{8999, "EXISTS k", "1"},
		{9001, "EXISTS k", "0"},
		{9001, "INCREX k", "[1 1]"},
		// A time that has passed deletes; not with ENX on a key with one.
		{9001, "INCREX k EXAT 1", "[2 1]"},
		{9001, "EXISTS k", "0"},
		{9001, "INCREX k EXAT 1", "[1 1]"},
		{9001, "EXISTS k", "0"},
		{9001, "INCREX k EX 100", "[1 1]"},
		{9001, "INCREX k EXAT 1 ENX", "[2 1]"},
		{9001, "TTL k", "100"},
	})
	// The usual form: 3 calls a minute from the first.
	for i, want := range []string{"[1 1]", "[2 1]", "[3 1]", "[3 0]"} {
		r.At(time.Duration(i) * time.Second)
		r.Is("INCREX win BYINT 1 UBOUND 3 EX 60 ENX", want)
	}
	r.At(60*time.Second + 1)
	r.Is("INCREX win BYINT 1 UBOUND 3 EX 60 ENX", "[1 1]")
}

func TestIncrExErrors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	for args, want := range map[string]string{
		"FOO":                    "syntax error",
		"BYINT":                  "syntax error",
		"BYINT 1 FOO":            "syntax error",
		"BYINT 1 BYINT 2":        "syntax error",
		"BYINT 1 BYFLOAT 2":      "syntax error",
		"LBOUND 0 LBOUND 1":      "syntax error",
		"UBOUND":                 "syntax error",
		"UBOUND 9 UBOUND 8":      "syntax error",
		"SATURATE SATURATE":      "syntax error",
		"ENX ENX EX 10":          "syntax error",
		"PERSIST PERSIST":        "syntax error",
		"PERSIST ENX":            "syntax error",
		"ENX PERSIST":            "syntax error",
		"EX 10 PERSIST":          "syntax error",
		"PERSIST EX 10":          "syntax error",
		"EX 10 PX 10":            "syntax error",
		"EX 10 EX 10":            "syntax error",
		"EXAT 1 PXAT 1":          "syntax error",
		"ENX":                    "ENX flag requires an expiration",
		"BYINT x ENX":            "ENX flag requires an expiration",
		"BYINT x UBOUND x":       "Increment is not an integer or out of range",
		"BYINT 1.5":              "Increment is not an integer or out of range",
		"BYINT +1":               "Increment is not an integer or out of range",
		"BYFLOAT x":              "Increment is not a valid float",
		"BYFLOAT nan":            "Increment is not a valid float",
		"BYFLOAT 1e99999":        "Increment is not a valid float",
		"BYFLOAT 0x10":           "Increment is not a valid float",
		"UBOUND inf":             "UBOUND is not an integer or out of range",
		"LBOUND 1.5":             "LBOUND is not an integer or out of range",
		"BYFLOAT 1 UBOUND x":     "UBOUND is not a valid float",
		"LBOUND 10 UBOUND 5":     "LBOUND can't be greater than UBOUND",
		"EX x":                   "value is not an integer or out of range",
		"EX 0":                   "invalid expire time in 'increx' command",
		"PX -1":                  "invalid expire time in 'increx' command",
		"EXAT -1":                "invalid expire time in 'increx' command",
		"EX 9223372036854775807": "invalid expire time in 'increx' command",
		"EX 9223372036854776":    "invalid expire time in 'increx' command",
		"PX 9223372036854775807": "invalid expire time in 'increx' command",
	} {
		r.Is("INCREX k "+args, "-ERR "+want)
	}
	r.Is("EXISTS k", "0")
	// Beyond the year 2262, which ends it for us.
	r.Is("INCREX far EX 9223372036", "[1 1]")
	r.Is("INCREX far PXAT 9223372036854775807", "[2 1]")
	r.Is("EXPIRETIME far", "9223372037")
	r.Is("INCREX", "-ERR wrong number of arguments for 'increx' command")
	r.Is("INCREX k LBOUND 0 BYINT 100 EX 100 UBOUND 10 SATURATE", "[10 10]")
	require.True(t, strings.HasPrefix(r.Raw("INCREX", "k", "byint", "1", "ex", "1", "enx"), "*2\r\n"), "options in any case")
}
