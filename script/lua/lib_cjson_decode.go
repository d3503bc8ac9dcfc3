package lua

import (
	"strings"
	"unicode/utf8"
)

// jsonToken is the type of a token, by the name that errors show.
type jsonToken string

const (
	jsonObjectBegin jsonToken = "T_OBJ_BEGIN"
	jsonObjectEnd   jsonToken = "T_OBJ_END"
	jsonArrayBegin  jsonToken = "T_ARR_BEGIN"
	jsonArrayEnd    jsonToken = "T_ARR_END"
	jsonString      jsonToken = "T_STRING"
	jsonNumber      jsonToken = "T_NUMBER"
	jsonBoolean     jsonToken = "T_BOOLEAN"
	jsonNullToken   jsonToken = "T_NULL"
	jsonColon       jsonToken = "T_COLON"
	jsonComma       jsonToken = "T_COMMA"
	jsonEnd         jsonToken = "T_END"
)

// jsonDecoder reads one text.
type jsonDecoder struct {
	*jsonSettings
	t     *Thread
	s     string
	at    int
	depth int
	slots int // of Lua's stack that the tables under way take
	word  buffer

	token jsonToken // the last one, or what is wrong instead of one
	index int       // where it begins
	value Value     // of a string, number or boolean
}

func (m jsonModule) decode(t *Thread, args []Value) Value {
	if len(args) != 1 {
		t.ArgError(0, "expected 1 argument")
	}
	d := jsonDecoder{jsonSettings: m(t), t: t, s: t.CheckString(args, 0), slots: 1}
	d.word.t = t
	if len(d.s) >= 2 && (d.s[0] == 0 || d.s[1] == 0) {
		t.Errorf("JSON parser does not support UTF-16 or UTF-32")
	}
	// Each value is put into this table at once, so that the count of the script's memory
	// includes it.
	root := t.NewTable(2, 0)
	root.array[0] = args[0]
	args[0] = root.Value()
	d.next()
	d.read(root, Int(2))
	d.next()
	if d.token != jsonEnd {
		d.fail("the end")
	}
	return root.array[1]
}

// fail raises the error for a token other than the expected one.
func (d *jsonDecoder) fail(expected string) {
	d.t.Errorf("Expected %s but found %s at character %d", expected, d.token, d.index+1)
}

// read reads the value that the current token begins into table[key].
func (d *jsonDecoder) read(table *Table, key Value) {
	switch d.token {
	case jsonString, jsonNumber, jsonBoolean, jsonNullToken:
		table.Set(d.t, key, d.value)
	case jsonObjectBegin:
		d.descend(3)
		child := d.t.NewTable(0, 0)
		table.Set(d.t, key, child.Value())
		d.slots += 2
		d.object(child)
		d.slots -= 2
		d.depth--
	case jsonArrayBegin:
		d.descend(2)
		child := d.t.NewTable(0, 0)
		table.Set(d.t, key, child.Value())
		d.slots++
		d.array(child)
		d.slots--
		d.depth--
	default:
		d.fail("value")
	}
}

// descend begins a table, which needs so many slots of Lua's stack.
func (d *jsonDecoder) descend(slots int) {
	d.depth++
	if d.depth > d.decodeMaxDepth || d.slots+slots > maxResults {
		d.t.Errorf("Found too many nested data structures (%d) at character %d", d.depth, d.at)
	}
}

func (d *jsonDecoder) object(table *Table) {
	d.next()
	if d.token == jsonObjectEnd {
		return
	}
	for {
		if d.token != jsonString {
			d.fail("object key string")
		}
		key := d.value
		d.next()
		if d.token != jsonColon {
			d.fail("colon")
		}
		d.next()
		d.read(table, key)
		d.next()
		if d.token == jsonObjectEnd {
			return
		}
		if d.token != jsonComma {
			d.fail("comma or object end")
		}
		d.next()
	}
}

func (d *jsonDecoder) array(table *Table) {
	d.next()
	if d.token == jsonArrayEnd {
		return
	}
	for i := 1; ; i++ {
		d.read(table, Int(i))
		d.next()
		if d.token == jsonArrayEnd {
			return
		}
		if d.token != jsonComma {
			d.fail("comma or array end")
		}
		d.next()
	}
}

// byteAt returns the byte at i; like C's strings the text ends with a zero byte.
func (d *jsonDecoder) byteAt(i int) byte {
	if i < len(d.s) {
		return d.s[i]
	}
	return 0
}

// next reads a token.
func (d *jsonDecoder) next() {
	from := d.at
	for c := d.byteAt(d.at); c == ' ' || c == '\t' || c == '\n' || c == '\r'; c = d.byteAt(d.at) {
		d.at++
		d.t.passed(d.at - from)
	}
	d.index = d.at
	c := d.byteAt(d.at)
	switch c {
	case '{':
		d.token = jsonObjectBegin
	case '}':
		d.token = jsonObjectEnd
	case '[':
		d.token = jsonArrayBegin
	case ']':
		d.token = jsonArrayEnd
	case ':':
		d.token = jsonColon
	case ',':
		d.token = jsonComma
	case 0:
		d.token = jsonEnd
		return
	default:
		d.long(c)
		d.t.Step(2 + min(d.at-from, piece)/8)
		return
	}
	d.at++
	d.t.Step(1 + min(d.at-from, piece)/8)
}

// long reads a token of several bytes.
func (d *jsonDecoder) long(c byte) {
	rest := d.s[d.at:]
	switch {
	case c == '"':
		d.text()
	case c == '-' || isDecimal(c):
		if !d.decodeInvalid && invalidNumber(rest) {
			d.token = "invalid number"
			return
		}
		d.number(rest)
	case strings.HasPrefix(rest, "true"):
		d.token, d.value = jsonBoolean, True
		d.at += 4
	case strings.HasPrefix(rest, "false"):
		d.token, d.value = jsonBoolean, False
		d.at += 5
	case strings.HasPrefix(rest, "null"):
		d.token, d.value = jsonNullToken, jsonNull.Value()
		d.at += 4
	case strings.IndexByte("+INint", c) >= 0 && d.decodeInvalid && invalidNumber(rest):
		d.number(rest)
	default:
		d.token = "invalid token"
	}
}

// number reads a number, in any form that C's strtod takes.
func (d *jsonDecoder) number(rest string) {
	f, n := d.t.scanNumber(rest)
	if n == 0 {
		d.token = "invalid number"
		return
	}
	d.token, d.value = jsonNumber, Number(f)
	d.at += n
}

// invalidNumber reports whether s begins like a number but is not one in JSON:
// a plus, a leading zero, a hexadecimal number, inf or nan.
func invalidNumber(s string) bool {
	if s[0] == '+' {
		return true
	}
	if s[0] == '-' {
		s = s[1:]
	}
	if len(s) > 1 && s[0] == '0' {
		return s[1]|0x20 == 'x' || isDecimal(s[1])
	}
	return hasPrefixFold(s, "inf") || hasPrefixFold(s, "nan")
}

// text reads a string.
func (d *jsonDecoder) text() {
	d.word.b = d.word.b[:0]
	start := d.at + 1
	i := start
	for {
		d.t.passed(i - d.at)
		switch c := d.byteAt(i); c {
		case '"':
			if len(d.word.b) == 0 {
				d.value = d.t.Substring(d.s, start, i)
			} else {
				d.word.text(d.s[start:i])
				d.value = d.t.String(d.word.b)
			}
			d.token = jsonString
			d.at = i + 1
			return
		case 0:
			d.wrong(i, "unexpected end of string")
			return
		case '\\':
			d.word.text(d.s[start:i])
			n := d.escape(i)
			if n == 0 {
				return
			}
			i += n
			start = i
		default:
			i++
		}
	}
}

// wrong makes the token an error at i.
func (d *jsonDecoder) wrong(i int, message jsonToken) {
	d.token, d.index, d.at = message, i, i
}

// escape appends the value of the escape sequence at i and returns its length,
// 0 if it is wrong.
func (d *jsonDecoder) escape(i int) int {
	c := d.byteAt(i + 1)
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 't':
		c = '\t'
	case 'n':
		c = '\n'
	case 'f':
		c = '\f'
	case 'r':
		c = '\r'
	case 'u':
		r, n := d.unicode(i)
		if n == 0 {
			d.wrong(i, "invalid unicode escape code")
			return 0
		}
		d.word.room(utf8.UTFMax)
		d.word.b = utf8.AppendRune(d.word.b, rune(r))
		return n
	default:
		d.wrong(i, "invalid escape code")
		return 0
	}
	d.word.byte(c)
	return 2
}

// unicode reads the escape sequence at i, or two that are a surrogate pair.
func (d *jsonDecoder) unicode(i int) (r, n int) {
	r = d.hex4(i + 2)
	if r < 0 {
		return 0, 0
	}
	if r&0xF800 != 0xD800 {
		return r, 6
	}
	if r&0x400 != 0 || d.byteAt(i+6) != '\\' || d.byteAt(i+7) != 'u' {
		return 0, 0
	}
	low := d.hex4(i + 8)
	if low < 0 || low&0xFC00 != 0xDC00 {
		return 0, 0
	}
	return (r&0x3FF)<<10 + low&0x3FF + 0x10000, 12
}

// hex4 returns the number of the four hexadecimal digits at i, or -1.
func (d *jsonDecoder) hex4(i int) int {
	n := 0
	for j := range 4 {
		c := d.byteAt(i + j)
		if !isHexDigit(c) {
			return -1
		}
		n = n<<4 | digitValue(c)
	}
	return n
}
