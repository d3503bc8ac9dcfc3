package script

import (
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// maxResultDepth bounds the depth of a result's tables, as in Redis.
const maxResultDepth = 7995

// resultWriter writes a script's result as a reply, as Redis does:
//
//	number             integer, truncated toward zero
//	string             bulk string
//	false, nil, other  null
//	true               1; after redis.setresp(3) both booleans are such
//	table with         of these fields the first that has the right type:
//	  err, ok          error, status
//	  double           double
//	  map, set         map, set: their keys are the members of a set
//	  big_number       big number
//	  verbatim_string  verbatim string, of its fields format and string
//	other table        array, up to the first nil
//
// Types that RESP2 lacks are written as the nearest type.
//
// Writing is charged as running is, because a small table may contain itself many times.
type resultWriter struct {
	w *resp.Writer
	t *lua.Thread
	// booleans is set if the script has asked for RESP3.
	booleans bool
	// most is how long w may become. Beyond that, the rest is left out.
	most int
	long bool // a text was left out because it would have been too long
}

// full reports whether the reply is too long, or its memory was refused.
func (r *resultWriter) full() bool { return r.long || r.w.Len() > r.most || r.w.Refused }

// fits reports whether there is room for a text of n bytes.
func (r *resultWriter) fits(n int) bool {
	r.t.Step(n >> 6)
	r.long = r.long || r.w.Len()+n > r.most
	return !r.long && r.w.Takes(n)
}

func (r *resultWriter) value(v lua.Value, depth int) {
	r.t.Step(1)
	if !r.w.Takes(shortValue) {
		return
	}
	switch {
	case v.IsNumber():
		r.w.Int(lua.Integer(v.Number()))
	case v.IsString():
		if r.fits(len(v.Text())) {
			r.w.BulkString(v.Text())
		}
	case v.Kind() == lua.KindBoolean && r.booleans:
		r.w.Bool(v.Truth())
	case v == lua.True:
		r.w.Int(1)
	case v.Table() == nil:
		r.w.Null()
	case depth >= maxResultDepth:
		r.w.Error("ERR reached lua stack limit")
	default:
		r.table(v.Table(), depth)
	}
}

// shortValue is room for a value that is not a text.
const shortValue = 64

func (r *resultWriter) table(t *lua.Table, depth int) {
	if v := t.Text(r.t, "err"); v.IsString() {
		if r.fits(len(v.Text())) {
			r.w.Error(r.oneLine(cText(v.Text())))
		}
		return
	}
	if v := t.Text(r.t, "ok"); v.IsString() {
		if r.fits(len(v.Text())) {
			r.w.Simple(r.oneLine(cText(v.Text())))
		}
		return
	}
	if v := t.Text(r.t, "double"); v.IsNumber() {
		r.w.Double(v.Number())
		return
	}
	if m := t.Text(r.t, "map").Table(); m != nil {
		r.w.Map(r.count(m))
		r.members(m, true, depth)
		return
	}
	if m := t.Text(r.t, "set").Table(); m != nil {
		r.w.Set(r.count(m))
		r.members(m, false, depth)
		return
	}
	if v := t.Text(r.t, "big_number"); v.IsString() {
		if r.fits(len(v.Text())) {
			r.bigNumber(r.oneLine(v.Text()))
		}
		return
	}
	if m := t.Text(r.t, "verbatim_string").Table(); m != nil {
		format, text := m.Text(r.t, "format"), m.Text(r.t, "string")
		if format.IsString() && text.IsString() {
			if r.fits(len(text.Text())) {
				r.w.Verbatim(threeLetters(format.Text()), text.Text())
			}
			return
		}
	}
	r.array(t, depth)
}

// array writes the elements up to the first nil.
func (r *resultWriter) array(t *lua.Table, depth int) {
	n := 0
	for !t.Int(r.t, n+1).IsNil() {
		r.t.Step(1)
		n++
	}
	r.w.Array(n)
	for i := 1; i <= n && !r.full(); i++ {
		r.value(t.Int(r.t, i), depth+1)
	}
}

func (r *resultWriter) members(t *lua.Table, values bool, depth int) {
	for key, v, _ := t.Next(r.t, lua.Nil); !key.IsNil() && !r.full(); key, v, _ = t.Next(r.t, key) {
		r.value(key, depth+1)
		if values {
			r.value(v, depth+1)
		}
	}
}

func (r *resultWriter) count(t *lua.Table) (n int) {
	for key, _, _ := t.Next(r.t, lua.Nil); !key.IsNil(); key, _, _ = t.Next(r.t, key) {
		n++
	}
	return n
}

func (r *resultWriter) bigNumber(digits string) {
	if !r.w.RESP3 {
		r.w.BulkString(digits)
		return
	}
	r.w.B = append(r.w.B, '(')
	r.w.B = append(r.w.B, digits...)
	r.w.B = append(r.w.B, '\r', '\n')
}

// oneLine replaces line breaks by spaces.
func (r *resultWriter) oneLine(s string) string {
	r.t.Step(len(s) / 8)
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// threeLetters cuts or pads the name of a format.
func threeLetters(format string) string {
	if len(format) >= 3 {
		return format[:3]
	}
	return format + "   "[len(format):]
}
