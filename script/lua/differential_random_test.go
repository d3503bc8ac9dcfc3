package lua_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
)

// batchSize is how many expressions a script of a random test has.
const batchSize = 100

// prelude has show, which runs a function and appends to out its results or its
// error, with their length in front.
const prelude = `local out = {}
local function show(f)
	local r = {pcall(f)}
	for i = 1, table.maxn(r) do
		local v = r[i]
		local kind = type(v)
		if kind == 'number' then
			r[i] = string.format('%.17g', v)
		elseif kind == 'string' then
			r[i] = '"' .. v .. '"'
		elseif kind == 'boolean' then
			r[i] = tostring(v)
		else
			r[i] = kind
		end
	end
	local s = table.concat(r, ' | ')
	out[#out + 1] = #s .. ':' .. s
end
`

// random compares n expressions that next makes, or in short tests a tenth of them.
func (o *oracle) random(n int, next func() string) {
	if testing.Short() {
		n /= 10
	}
	failures := 0
	for done := 0; done < n && failures < 20; done += batchSize {
		var script strings.Builder
		script.WriteString(prelude)
		expressions := make([]string, batchSize)
		for i := range expressions {
			expressions[i] = next()
			fmt.Fprintf(&script, "show(function() return %s end)\n", expressions[i])
		}
		script.WriteString("return table.concat(out)")
		ours, theirs := o.ours(script.String()), o.theirs(script.String())
		if ours == theirs {
			continue
		}
		a, b := o.split(ours), o.split(theirs)
		for i := range min(len(a), len(b), batchSize) {
			if a[i] != b[i] {
				failures++
				o.t.Errorf("%s\nours  %.1000q\nRedis %.1000q", expressions[i], a[i], b[i])
			}
		}
		if len(a) != batchSize || len(b) != batchSize {
			o.t.Fatalf("%s\nours  %.1000q\nRedis %.1000q", script.String(), ours, theirs)
		}
	}
}

// split takes the results of a batch apart.
func (o *oracle) split(s string) []string {
	var list []string
	for s != "" {
		size, rest, ok := strings.Cut(s, ":")
		n, err := strconv.Atoi(size)
		if !ok || err != nil || n > len(rest) {
			break
		}
		list = append(list, rest[:n])
		s = rest[n:]
	}
	return list
}

// quote writes s as a Lua string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c < 0x7F && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// pick is one of the choices.
func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// text is a random text of up to n pieces.
func text(r *rand.Rand, n int, pieces ...string) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		b.WriteString(pick(r, pieces...))
	}
	return b.String()
}

// letters are the pieces that are bytes of s.
func letters(s string) []string { return strings.Split(s, "") }

// float is a random number that formatting may stumble over.
func float(r *rand.Rand) float64 {
	switch r.IntN(8) {
	case 0:
		return float64(r.IntN(2000) - 1000)
	case 1:
		return math.Float64frombits(r.Uint64()) // of all sizes
	case 2:
		return float64(int64(1)<<53 + r.Int64N(2000) - 1000)
	case 3:
		return math.Float64frombits(r.Uint64N(1 << 52)) // subnormal
	case 4:
		return float64(r.Int64N(1e6)) / pick(r, 10., 100, 1000, 8)
	case 5:
		return (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20))
	case 6:
		return math.Pow(10, float64(r.IntN(40)-20)) * pick(r, 1., -1, 5, 9.99999999999995, 0.999999999999995)
	}
	return float64(r.Uint64()) * pick(r, 1., -1, 2, 0.5)
}

// numeral is a Lua expression for a float.
func numeral(f float64) string {
	switch {
	case f != f:
		return "(0/0)"
	case math.IsInf(f, 0):
		return fmt.Sprintf("(%v*math.huge)", math.Copysign(1, f))
	}
	return fmt.Sprintf("tonumber('%s')", strconv.FormatFloat(f, 'g', 17, 64))
}

func source(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestRandomNumbers(t *testing.T) {
	o, r := newOracle(t), source(t)
	o.random(10_000, func() string { return "tostring(" + numeral(float(r)) + ")" })
	o.random(10_000, func() string {
		s := text(r, 10, letters("0123456789.eExXpPaAfFnNiItTyY+- \t\x00()_")...)
		if r.IntN(3) == 0 {
			s = strconv.FormatFloat(float(r), pick(r, byte('g'), 'e', 'f', 'x'), r.IntN(20), 64)
		}
		if r.IntN(3) == 0 {
			return fmt.Sprintf("tonumber(%s, %d)", quote(s), r.IntN(37))
		}
		return fmt.Sprintf("tonumber(%s)", quote(s))
	})
}

// TestRandomLongNumbers compares numbers of more digits than one is read by: each
// is near the middle between two floats, which its last digit decides.
func TestRandomLongNumbers(t *testing.T) {
	o := newOracle(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	middle := func() string {
		f := math.Ldexp(rnd.Float64(), rnd.IntN(2100)-1074)
		if rnd.IntN(4) == 0 {
			f = math.Float64frombits(rnd.Uint64N(1 << uint(1+rnd.IntN(52)))) // few bits
		}
		a := new(big.Float).SetPrec(2000).SetFloat64(f)
		b := new(big.Float).SetPrec(2000).SetFloat64(math.Nextafter(f, math.Inf(1)))
		return a.Quo(a.Add(a, b), big.NewFloat(2)).Text('e', 800)
	}
	o.random(3000, func() string {
		mantissa, exponent, _ := strings.Cut(middle(), "e")
		whole, fraction, _ := strings.Cut(mantissa, ".")
		e, _ := strconv.Atoi(exponent)
		last := []string{"", "0", "1"}[rnd.IntN(3)]
		zeros := rnd.IntN(3000)
		switch rnd.IntN(6) {
		case 0: // digits, and zeros behind them
			return fmt.Sprintf(`tonumber("%s%s" .. ("0"):rep(%d) .. "%s.%se%d")`, whole, fraction, zeros, last, last, e-800-zeros-len(last))
		case 1: // zeros in front
			return fmt.Sprintf(`tonumber(" -" .. ("0"):rep(%d) .. "%s.%s" .. ("0"):rep(%d) .. "%s" .. "e%d ")`, zeros, whole, fraction, zeros, last, e)
		case 2:
			return fmt.Sprintf(`tonumber("0." .. ("0"):rep(%d) .. "%s%s" .. ("0"):rep(%d) .. "%s" .. "e%d")`, zeros, whole, fraction, zeros, last, e+1+zeros)
		case 3: // hexadecimal, where the 53rd bit of what follows decides
			return fmt.Sprintf(`tonumber("0x%x8" .. ("0"):rep(%d) .. "%s.%sp%d")`, 1<<52+rnd.Int64N(1<<52), zeros, last, last, rnd.IntN(2200)-1100-4*zeros)
		case 4:
			return fmt.Sprintf(`tonumber("0x0." .. ("0"):rep(%d) .. "%x8" .. ("0"):rep(%d) .. "%s" .. "P%+d")`, zeros, 1<<52+rnd.Int64N(1<<52), zeros, last, rnd.IntN(2200)-1100+4*zeros)
		}
		return fmt.Sprintf(`tonumber(("%d"):rep(%d) .. "%s", %d)`, rnd.IntN(2), zeros, last, 2+rnd.IntN(35))
	})
}

func TestRandomFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	o, r := newOracle(t), source(t)
	o.random(30_000, func() string {
		format := "%" + text(r, 3, letters("-+ #0")...)
		if r.IntN(2) == 0 {
			format += strconv.Itoa(r.IntN(30))
		}
		if r.IntN(2) == 0 {
			format += "." + text(r, 1, letters("0123456789")...) + text(r, 1, "1", "9")
		}
		verb := pick(r, letters("diucxXoeEfgGgfs")...)
		if verb == "g" || verb == "G" {
			// glibc leaves zeros out if rounding makes a power of ten.
			format = strings.ReplaceAll(format, "#", "")
		}
		format += verb
		return fmt.Sprintf("string.format(%s, %s)", quote(format), numeral(float(r)))
	})
	o.random(5_000, func() string {
		format := text(r, 3, "%s", "%5s", "%-8s|", "%.2s", "%q", "%c", "%d", "%5.1f", "%%", "%5", "%z", "x", "%-+ #0", "%123d", "%.200f")
		var args string
		for range r.IntN(4) {
			args += ", " + pick(r, "1", "'a'", "'1e1'", "nil", "{}", `"a\0b"`, "('x'):rep(120)", "true", `"\r\n\\\""`, "65.7")
		}
		return fmt.Sprintf("string.format(%s%s)", quote(format), args)
	})
}

func TestRandomPatterns(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	o, r := newOracle(t), source(t)
	o.random(40_000, func() string {
		pattern := text(r, 6, "a", "b", ".", "%a", "%d", "%w", "%s", "%S", "%p", "[ab]", "[^a]", "[a-c]", "[%d_]", "[]]", "[^%s]", "*", "+", "-", "?", "(", ")", "()",
			"(a)", "(.-)", "(%w+)", "%1", "%2", "%b()", "%bab", "%f[%w]", "%f[^a]", "^", "$", "%", "[", "]", "%z", "%%", "\x00", "[a-", "[a-]", "[%a-z]", "%x%X", "%u%l", "%c")
		subject := text(r, 10, "a", "b", "ab", "aa", " ", "(", ")", "1", "A", "_", ",", "\x00", "\xff", "%", "]", "-")
		switch r.IntN(4) {
		case 0:
			return fmt.Sprintf("string.find(%s, %s, %d)", quote(subject), quote(pattern), r.IntN(12)-4)
		case 1:
			return fmt.Sprintf("string.match(%s, %s)", quote(subject), quote(pattern))
		case 2:
			return fmt.Sprintf("(function() local n, o = 0, {} for a, b in string.gmatch(%s, %s) do o[#o + 1] = tostring(a) .. '/' .. tostring(b) n = n + 1 if n > 20 then break end end return table.concat(o, ',') end)()", quote(subject), quote(pattern))
		}
		replacement := quote(text(r, 4, "x", "%0", "%1", "%2", "%%", "%", "-"))
		if r.IntN(3) == 0 {
			replacement = pick(r, "{a = 1, b = 'B', ab = false}", "function(a, b) return b end", "function(a) return a and #tostring(a) end", "true", "3", "{a = {}}")
		}
		return fmt.Sprintf("string.gsub(%s, %s, %s, %s)", quote(subject), quote(pattern), replacement, pick(r, "nil", "nil", "1", "2", "0", "-1"))
	})
}

// jsonText is a text that is JSON or nearly so.
func jsonText(r *rand.Rand, depth int) string {
	if depth > 4 {
		return "1"
	}
	list := func(item func() string) string {
		items := make([]string, r.IntN(5))
		for i := range items {
			items[i] = item()
		}
		return strings.Join(items, pick(r, ",", ", ", ",\n"))
	}
	switch r.IntN(9) {
	case 0, 1:
		return "[" + list(func() string { return jsonText(r, depth+1) }) + "]"
	case 2, 3:
		return "{" + list(func() string {
			return jsonString(r) + pick(r, ":", " : ") + jsonText(r, depth+1)
		}) + "}"
	case 4:
		return jsonString(r)
	case 5:
		return pick(r, "true", "false", "null", "true", "nan", "-inf", "0x1f", "1e999", "+1", "01", "-", "nul", "Infinity", "NaN")
	}
	return strconv.FormatFloat(float(r), pick(r, byte('g'), 'e', 'f'), r.IntN(18), 64)
}

func jsonString(r *rand.Rand) string {
	return `"` + text(r, 6, "a", "b", "k", "\\n", "\\u00e9", "\\u20AC", "\\ud83d\\ude00", "\\\"", "\\/", "/", "\xc3\xa9", "\x01", "\\u0000", " ", "{", "1") + pick(r, "", "", "", "", "", "\\ud800", "\\x", "\\u12", "\x00") + `"`
}

func TestRandomJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	o, r := newOracle(t), source(t)
	o.random(20_000, func() string {
		s := jsonText(r, 0)
		if r.IntN(3) == 0 && s != "" {
			i := r.IntN(len(s))
			s = s[:i] + pick(r, "", ",", "]", "}", "\"", ":", " ", "1", "x", "\\", "[") + s[i+r.IntN(2):]
		}
		return "cjson.encode(cjson.decode(" + quote(s) + "))"
	})
}

func TestRandomStruct(t *testing.T) {
	o, r := newOracle(t), source(t)
	layout := func() string {
		return text(r, 6, "b", "B", "h", "H", "l", "L", "T", "i", "I", "f", "d", "x", "s", "c0", "c3", "i3", "I5", "i8", "i12", ">", "<", "!", "!2", "!4", "!3", "i33", " ", "z", "c")
	}
	o.random(10_000, func() string {
		var args string
		for range r.IntN(6) {
			args += ", " + pick(r, numeral(float(r)), strconv.Itoa(r.IntN(300)-150), "'ab'", "'abcdef'", "'12'", "{}", "nil")
		}
		return fmt.Sprintf("struct.pack(%s%s)", quote(layout()), args)
	})
	o.random(10_000, func() string {
		data := text(r, 20, "\x00", "\x01", "\x02", "\xff", "a", "\x7f", "\x80", "3")
		return fmt.Sprintf("struct.unpack(%s, %s, %s)", quote(layout()), quote(data), pick(r, "nil", "nil", "1", "2", "5", "0", "-1", "100"))
	})
	o.random(3_000, func() string { return "struct.size(" + quote(layout()) + ")" })
}

func TestRandomMessagePack(t *testing.T) {
	o, r := newOracle(t), source(t)
	o.random(10_000, func() string {
		var data strings.Builder
		for range r.IntN(12) {
			data.WriteByte(pick(r, byte(r.IntN(256)), byte(r.IntN(256)), 0x91, 0x81, 0x92, 0xA1, 0, 1, 0xCA, 0xCF, 0xD3))
		}
		unpack := pick(r, "cmsgpack.unpack", "cmsgpack.unpack_one") + "(" + quote(data.String()) + ")"
		if r.IntN(3) == 0 && strings.IndexByte(data.String(), 0xCA) < 0 && strings.IndexByte(data.String(), 0xCB) < 0 { // a NaN does not keep all its bits
			return "cmsgpack.pack(" + unpack + ")"
		}
		return unpack
	})
}

func TestRandomBits(t *testing.T) {
	o, r := newOracle(t), source(t)
	o.random(10_000, func() string {
		f := pick(r, "tobit", "bnot", "bswap", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex")
		args := make([]string, 1+r.IntN(3))
		for i := range args {
			args[i] = pick(r, numeral(float(r)), strconv.Itoa(r.IntN(100)-50), fmt.Sprint(float64(r.IntN(100))/4), strconv.FormatUint(r.Uint64N(1<<33), 10))
		}
		return "bit." + f + "(" + strings.Join(args, ", ") + ")"
	})
}

// TestRandomArguments calls every function with arguments of all types.
func TestRandomArguments(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	o, r := newOracle(t), source(t)
	functions := strings.Fields(`string.byte string.char string.find string.format string.gmatch string.gsub string.len string.lower string.match
		string.reverse string.sub string.upper table.concat table.getn table.maxn table.remove table.foreach table.foreachi table.setn
		table.sort math.abs math.ceil math.floor math.fmod math.frexp math.ldexp math.pow math.max math.min math.mod math.modf math.sqrt math.deg math.rad
		cjson.encode cjson.decode cjson.new().encode_max_depth cjson.new().decode_max_depth cjson.new().encode_keep_buffer
		cjson.new().encode_sparse_array cjson.new().encode_invalid_numbers cjson.new().decode_invalid_numbers cjson.new().encode_number_precision
		struct.pack struct.unpack struct.size bit.tobit bit.bnot bit.band bit.bor bit.lshift bit.arshift bit.rol bit.tohex bit.bswap
		cmsgpack.pack cmsgpack.unpack cmsgpack.unpack_one cmsgpack.unpack_limit tonumber`)
	values := []string{"nil", "true", "false", "0", "1", "-1", "2", "3.5", "-2.7", "1e15", "2^53", "-2^63", "1/0", "-1/0", "0/0", "''", "'a'", "'abc'",
		"'10'", "' 0x1F '", "'1e2'", "'%d'", `"a\0b"`, "'%w+'", "'(a)(b)'", "'[1,2]'", "'on'", "'null'", "'i'", "'>bs'", "{}", "{1, 2, 3}", "{a = 1}", "{'x', 'y'}",
		"{1, nil, 3}", "tostring", "string.len", "cjson.null", "{3, 1, 2}", "{{}}", "4", "8", "16"}
	o.random(60_000, func() string {
		args := make([]string, r.IntN(5))
		for i := range args {
			args[i] = pick(r, values...)
		}
		return pick(r, functions...) + "(" + strings.Join(args, ", ") + ")"
	})
	small := []string{"nil", "0", "1", "-1", "2", "3.5", "'x'", "'2'", "{}", "100", "'ab'"}
	o.random(5_000, func() string {
		return fmt.Sprintf("string.rep(%s)", strings.Join([]string{pick(r, small...), pick(r, small...)}[:r.IntN(3)], ", "))
	})
	o.random(10_000, func() string {
		insert := []string{"t", pick(r, small...), pick(r, small...), pick(r, small...)}
		return fmt.Sprintf("(function() local t = {%s} table.insert(%s) return table.concat(t, ','), table.remove(t, %s), #t, t[0], t[-1] end)()",
			pick(r, "", "1", "1, 2, 3", "'a', 'b', 'c', 'd'"), strings.Join(insert[:r.IntN(4)+1], ", "), pick(r, small...))
	})
}

// TestRandomSort compares the order in which equal elements end up, and how
// often an order function is called, also one that contradicts itself.
func TestRandomSort(t *testing.T) {
	o, r := newOracle(t), source(t)
	o.random(3_000, func() string {
		items := make([]string, r.IntN(40))
		for i := range items {
			items[i] = strconv.Itoa(r.IntN(20))
		}
		less := pick(r, "return a < b", "return a > b", "return a %% 5 < b %% 5", "return n %% 2 == 0", "return true", "return false", "return a <= b", "return n %% 3 == 1", "if n > 20 then error('x') end return a < b")
		return fmt.Sprintf(`(function() local n, t = 0, {%s} local ok, e = pcall(table.sort, t, function(a, b) n = n + 1 %s end) return n, ok, e, table.concat(t, ',') end)()`,
			strings.Join(items, ", "), strings.ReplaceAll(less, "%%", "%"))
	})
	o.random(1_000, func() string {
		items := make([]string, r.IntN(20))
		for i := range items {
			items[i] = pick(r, "1", "2", "3.5", "-1", "0", "1e10")
		}
		if r.IntN(5) == 0 {
			items = append(items, pick(r, "'a'", "{}", "nil", "0/0"))
		}
		return fmt.Sprintf(`(function() local t = {%s} table.sort(t) return unpack(t) end)()`, strings.Join(items, ", "))
	})
}

// TestRandomMath compares the results of functions that round: to the last bit,
// and to 13 digits. For functions that scripts use, the last bit may differ in
// one case of a hundred.
func TestRandomMath(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	o, r := newOracle(t), source(t)
	const n = 2000
	for f, most := range map[string]int{"exp": n / 100, "log": n / 100, "log10": n / 100, "pow": n / 100, "sqrt": 0, "fmod": 0,
		"sin": n, "cos": n, "tan": n, "asin": n, "acos": n, "atan": n, "sinh": n, "cosh": n, "tanh": n, "atan2": n} {
		var args strings.Builder
		for range n {
			x, y := r.NormFloat64()*pick(r, 0.1, 1, 10, 300), float(r)
			switch f {
			case "asin", "acos":
				x = r.Float64()*2 - 1
			case "log", "log10", "sqrt":
				x = math.Abs(y)
			case "pow":
				x, y = math.Abs(x), pick(r, r.NormFloat64()*10, 0.5, 2, 3, -1, 1.5, float64(r.IntN(20)))
			}
			fmt.Fprintf(&args, "{%s, %s}, ", numeral(x), numeral(y))
		}
		for format, most := range map[string]int{"%.17g": most, "%.13g": n / 100} {
			script := fmt.Sprintf("local o = {} for i, a in ipairs({%s}) do o[i] = string.format('%s', math.%s(a[1], a[2])) end return table.concat(o, ' ')", args.String(), format, f)
			ours, theirs := strings.Fields(o.ours(script)), strings.Fields(o.theirs(script))
			require.Len(t, ours, n)
			require.Len(t, theirs, n)
			different := 0
			for i := range ours {
				if ours[i] != theirs[i] {
					different++
				}
			}
			require.LessOrEqual(t, different, most, "%s %s", f, format)
		}
	}
}

// TestRandomSequence takes numbers from the generators of a new server and of a
// new environment over several scripts.
func TestRandomSequence(t *testing.T) {
	o := newOracle(t)
	for range 5 {
		o.compare(shown("return math.random(), math.random(10), math.random(-5, 5), math.random(), math.random(2147483647)"))
	}
	o.compare(shown("math.randomseed(7) return math.random(), math.random(10)"))
	// A seed holds for the run: Redis alone goes on from it in the next script.
	number := shown("return math.random()")
	var plain, seeded oracle
	for _, p := range []*oracle{&plain, &seeded} {
		p.env = lua.NewEnvironment()
		p.thread = lua.NewThread(p.env)
	}
	for range 3 {
		seeded.ours(shown("math.randomseed(7) return math.random()"))
		require.Equal(t, plain.ours(number), seeded.ours(number))
	}
}
