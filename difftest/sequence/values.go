package sequence

import (
	"strconv"
	"strings"
)

// values makes the arguments of each kind that templates name.
var values map[string]func(*Generator) string

func init() {
	values = map[string]func(*Generator) string{
		"key": (*Generator).anyKey,
		"s":   func(g *Generator) string { return g.keyOf("s") },
		"h":   func(g *Generator) string { return g.keyOf("h") },
		"set": func(g *Generator) string { return g.keyOf("u") },
		"z":   func(g *Generator) string { return g.keyOf("z") },
		"l":   func(g *Generator) string { return g.keyOf("l") },

		"value": (*Generator).value, "int": (*Generator).integer, "float": (*Generator).float,
		"member": (*Generator).member, "score": (*Generator).score,
		"index": (*Generator).index, "count": (*Generator).count, "sample": (*Generator).sample, "offset": (*Generator).offset,
		"min": (*Generator).bound, "max": (*Generator).bound, "lex": (*Generator).lexical,
		"pattern": (*Generator).pattern, "bit": func(g *Generator) string { return g.pick("0", "1", "1", "2", "a") },
		"db": func(g *Generator) string { return strconv.Itoa(g.rng.IntN(3)) },

		"seconds": (*Generator).seconds, "ms": (*Generator).milliseconds,
		"at": (*Generator).atSeconds, "atms": (*Generator).atMilliseconds,
	}
}

func (g *Generator) pick(list ...string) string { return list[g.rng.IntN(len(list))] }

// oddKeys are keys that a parser may stumble over.
var oddKeys = []string{"", " ", "a\x00b", "\xff\xfe", "{tag}k", "k\r\n1", strings.Repeat("long", 40)}

// kinds begin the names of keys, by the type that most of their commands are of.
var kinds = []string{"s", "h", "u", "z", "l"}

// keyOf returns a key that mostly holds the type of a kind.
func (g *Generator) keyOf(kind string) string {
	switch n := g.rng.IntN(40); {
	case n == 0:
		return oddKeys[g.rng.IntN(len(oddKeys))]
	case n < 3:
		return g.anyKey()
	}
	return kind + strconv.Itoa(g.rng.IntN(3))
}

func (g *Generator) anyKey() string {
	if g.rng.IntN(25) == 0 {
		return oddKeys[g.rng.IntN(len(oddKeys))]
	}
	return kinds[g.rng.IntN(len(kinds))] + strconv.Itoa(g.rng.IntN(3))
}

// value is what a key, a field or an element holds.
func (g *Generator) value() string {
	switch n := g.rng.IntN(20); {
	case n < 9:
		return g.integer()
	case n < 11:
		return g.float()
	case n < 12:
		return strings.Repeat(g.pick("x", "ab", "\x00\x01", "12"), 1+g.rng.IntN(300))
	case n < 13:
		return g.odd()
	}
	return g.pick("", "a", "foo", "bar", "hello world", "\xff\x00\r\n", "0010", "+5", "3.0", "5.", " 7", "OK")
}

// integer is a number that a counter is set to or raised by.
func (g *Generator) integer() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854775806", "-9223372036854775807",
			"9223372036854775808", "-9223372036854775809", "18446744073709551615", "4294967296", "-2147483649")
	case n == 1:
		return g.odd()
	case n < 6:
		return strconv.Itoa(-g.rng.IntN(20))
	case n < 10:
		return strconv.FormatInt(g.rng.Int64N(2_000_000_000_000)-1_000_000_000_000, 10)
	}
	return strconv.Itoa(g.rng.IntN(20))
}

// odd is what is taken as a number by mistake, or not taken as one.
func (g *Generator) odd() string {
	return g.pick("", " ", "-", "+", "--1", "+1", "01", "-0", "0x10", "1 ", " 1", "1e3", "1.0", ".5", "5.", "-.5e-3", "nan", "NaN", "inf", "-inf",
		"+inf", "infinity", "1e400", "1e-400", "abc", "1\x00", "99999999999999999999", "0.1", "1_000", "1e", "e5", "0b1", "0o7", "1d")
}

func (g *Generator) float() string {
	switch n := g.rng.IntN(14); {
	case n == 0:
		return g.odd()
	case n < 3:
		return g.pick("1e17", "1e15", "1e-5", "1e20", "-1e300", "1e308", "3.141592653589793", "0.1", "0.2", "1e-7", "123456789012345678", "5e-324")
	case n < 7:
		return strconv.FormatFloat(float64(g.rng.IntN(4000)-2000)/16, 'g', -1, 64)
	case n < 10:
		return strconv.FormatFloat((g.rng.Float64()-0.5)*100, 'g', 1+g.rng.IntN(17), 64)
	}
	return strconv.Itoa(g.rng.IntN(41) - 20)
}

// member is a member of a set or a field of a hash.
func (g *Generator) member() string {
	switch n := g.rng.IntN(24); {
	case n == 0:
		return g.pick("", " ", "\x00", "\xff\xff", "a\r\nb", "nan", "1.5", "-0", "007", "9223372036854775807", "-9223372036854775808")
	case n == 1:
		return strings.Repeat(g.pick("m", "n"), 60+g.rng.IntN(10))
	case n < 10:
		return strconv.Itoa(g.rng.IntN(8))
	case n < 12:
		return "m" + strconv.Itoa(g.rng.IntN(500))
	}
	return g.pick("a", "b", "c", "d", "e", "tokens", "last", "aa", "ab")
}

// score is one of a sorted set.
func (g *Generator) score() string {
	switch n := g.rng.IntN(24); {
	case n == 0:
		return g.odd()
	case n < 3:
		return g.pick("inf", "-inf", "+inf", "0", "-0", "1e17", "1700000000123456", "1e-9", "9007199254740993", "1.7976931348623157e308")
	case n < 8:
		return strconv.FormatFloat(float64(g.rng.IntN(200)-100)/8, 'g', -1, 64)
	case n < 10:
		return strconv.FormatFloat(g.rng.Float64(), 'g', -1, 64)
	}
	return strconv.Itoa(g.rng.IntN(12))
}

// bound is an end of a range of scores.
func (g *Generator) bound() string {
	switch n := g.rng.IntN(20); {
	case n < 4:
		return "-inf"
	case n < 8:
		return "+inf"
	case n < 11:
		return "(" + g.score()
	}
	return g.score()
}

// lexical is an end of a range of members.
func (g *Generator) lexical() string {
	switch n := g.rng.IntN(20); {
	case n < 4:
		return "-"
	case n < 8:
		return "+"
	case n < 13:
		return "(" + g.member()
	case n == 13:
		return g.pick("", "a", "[", "(", "--", "+inf")
	}
	return "[" + g.member()
}

func (g *Generator) index() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.integer()
	case n < 8:
		return "-1"
	case n < 14:
		return "0"
	}
	return strconv.Itoa(g.rng.IntN(14) - 6)
}

func (g *Generator) count() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.integer()
	case n < 4:
		return strconv.Itoa(-g.rng.IntN(4))
	}
	return strconv.Itoa(g.rng.IntN(6))
}

// sample is a count of random elements. One far below zero asks for as many,
// which may repeat: redis-server would write for minutes.
func (g *Generator) sample() string {
	if g.rng.IntN(30) == 0 {
		return g.odd()
	}
	return strconv.Itoa(g.rng.IntN(12) - 4)
}

// offset is a position in a string: small, since a value grows up to it.
func (g *Generator) offset() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.odd()
	case n == 1:
		return "-1"
	case n < 4:
		return strconv.Itoa(g.rng.IntN(3000))
	}
	return strconv.Itoa(g.rng.IntN(24))
}

func (g *Generator) pattern() string {
	return g.pick("*", "*", "*", "s*", "?1", "[sh]*", "[^s]*", "h[0-1]", "z\\0", "", "**2", "*\x00*", "[", "\\", "a?b", "m*")
}

// briefly is the longest lifetime after which a sequence waits until it is over,
// and Wait how long it does. What lives longer outlives the sequence.
const briefly = 8 // ms

// seconds is a lifetime in seconds: long, over, or not one.
func (g *Generator) seconds() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854776", "9223372036854775", "1e3", "abc", "", "1.5")
	case n == 1:
		return g.pick("0", "-1", "-100")
	}
	return strconv.Itoa(100 + g.rng.IntN(1_000_000))
}

func (g *Generator) milliseconds() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.pick("9223372036854775807", "-9223372036854775808", "9223372036854775000", "1e3", "abc", "", "1.5")
	case n == 1:
		return g.pick("0", "-1", "-100")
	case n < 6 && g.brief():
		return strconv.Itoa(1 + g.rng.IntN(briefly))
	}
	return strconv.Itoa(100_000 + g.rng.IntN(1_000_000_000))
}

func (g *Generator) atSeconds() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.pick("9223372036854775807", "-1", "0", "1", "1700000000", "abc", "9223372036854775")
	case n < 3:
		return inSeconds + "-10"
	}
	return inSeconds + strconv.Itoa(100+g.rng.IntN(1_000_000))
}

func (g *Generator) atMilliseconds() string {
	switch n := g.rng.IntN(30); {
	case n == 0:
		return g.pick("9223372036854775807", "-1", "0", "1", "1700000000000", "abc")
	case n < 3:
		return inMilliseconds + "-10"
	case n < 7 && g.brief():
		return inMilliseconds + strconv.Itoa(1+g.rng.IntN(briefly))
	}
	return inMilliseconds + strconv.Itoa(100_000+g.rng.IntN(1_000_000_000))
}

// brief reports whether a key may be given a life that ends within the
// sequence, and has the sequence wait for its end. Commands that are queued take
// effect later than the generator knows.
func (g *Generator) brief() bool {
	if g.queueing[g.conn] {
		return false
	}
	g.ending = true
	return true
}
