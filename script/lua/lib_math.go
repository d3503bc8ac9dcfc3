package lua

import "math"

// mathLibrary is the table math, with Redis's random and randomseed.
func mathLibrary() *Table {
	return NewLibrary(
		Func("abs", unary(math.Abs)),
		Func("acos", unary(math.Acos)),
		Func("asin", unary(math.Asin)),
		Func("atan", unary(math.Atan)),
		Func("atan2", binary(math.Atan2)),
		Func("ceil", unary(math.Ceil)),
		Func("cos", unary(math.Cos)),
		Func("cosh", unary(math.Cosh)),
		Func("deg", unary(func(x float64) float64 { return x / degree })),
		Func("exp", unary(exponential)),
		Func("floor", unary(math.Floor)),
		Func("fmod", binary(modulo)),
		Func("frexp", mathFrexp),
		Func("ldexp", mathLdexp),
		Func("log", unary(logarithm)),
		Func("log10", unary(logarithm10)),
		Func("max", mathMax),
		Func("min", mathMin),
		Func("mod", binary(modulo)),
		Func("modf", mathModf),
		Func("pow", binary(Power)),
		Func("rad", unary(func(x float64) float64 { return x * degree })),
		Func("random", mathRandom),
		Func("randomseed", mathRandomseed),
		Func("sin", unary(math.Sin)),
		Func("sinh", unary(math.Sinh)),
		Func("sqrt", unary(math.Sqrt)),
		Func("tan", unary(math.Tan)),
		Func("tanh", unary(math.Tanh)),
		Entry{"huge", Number(math.Inf(1))},
		Entry{"pi", Number(math.Pi)},
	)
}

const degree = math.Pi / 180

// unary makes a function of a number.
func unary(f func(x float64) float64) GoFunction {
	return func(t *Thread, args []Value) Value {
		return Number(withSign(f(t.CheckNumber(args, 0)), Arg(args, 0)))
	}
}

// binary makes a function of two numbers.
func binary(f func(x, y float64) float64) GoFunction {
	return func(t *Thread, args []Value) Value {
		x, y := t.CheckNumber(args, 0), t.CheckNumber(args, 1)
		f := f(x, y)
		if f != f && x == x && y == y {
			f = invalid()
		}
		return Number(f)
	}
}

// withSign is f, or the processor's NaN if f is a NaN and what it came from is
// none.
func withSign(f float64, from Value) float64 {
	if f == f {
		return f
	}
	if x, _ := ToNumber(from); x != x {
		return x
	}
	return invalid()
}

var zero float64

// invalid is the NaN of an invalid operation, whose sign depends on the
// processor; scripts see it.
func invalid() float64 { return zero / zero }

// modulo is C's fmod.
func modulo(x, y float64) float64 { return math.Mod(x, y) }

func mathFrexp(t *Thread, args []Value) Value {
	fraction, exponent := math.Frexp(t.CheckNumber(args, 0))
	return t.Return(Number(fraction), Int(exponent))
}

func mathLdexp(t *Thread, args []Value) Value {
	x := t.CheckNumber(args, 0)
	return Number(math.Ldexp(x, t.checkInt32(args, 1)))
}

func mathModf(t *Thread, args []Value) Value {
	x := t.CheckNumber(args, 0)
	if math.IsInf(x, 0) {
		return t.Return(Number(x), Number(math.Copysign(0, x)))
	}
	if x != x {
		return t.Return(Number(x), Number(x))
	}
	whole, fraction := math.Modf(x)
	return t.Return(Number(whole), Number(math.Copysign(fraction, x)))
}

func mathMax(t *Thread, args []Value) Value {
	largest := t.CheckNumber(args, 0)
	for i := 1; i < len(args); i++ {
		if f := t.CheckNumber(args, i); f > largest {
			largest = f
		}
	}
	return Number(largest)
}

func mathMin(t *Thread, args []Value) Value {
	smallest := t.CheckNumber(args, 0)
	for i := 1; i < len(args); i++ {
		if f := t.CheckNumber(args, i); f < smallest {
			smallest = f
		}
	}
	return Number(smallest)
}

// random steps the generator of 48 bits that Redis gives scripts (that of
// drand48) and gives a number in [0, 1).
func (t *Thread) random() float64 {
	t.Random = (t.Random*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return float64(t.Random>>17%math.MaxInt32) / math.MaxInt32
}

func mathRandom(t *Thread, args []Value) Value {
	r := t.random()
	switch len(args) {
	case 0:
		return Number(r)
	case 1:
		high := t.checkInt32(args, 0)
		if high < 1 {
			t.ArgError(0, "interval is empty")
		}
		return Number(math.Floor(r*float64(high)) + 1)
	case 2:
		low, high := t.checkInt32(args, 0), t.checkInt32(args, 1)
		if low > high {
			t.ArgError(1, "interval is empty")
		}
		span := int32(high - low + 1) // C's int wraps around
		return Number(math.Floor(r*float64(span)) + float64(low))
	}
	t.Errorf("wrong number of arguments")
	return Nil
}

func mathRandomseed(t *Thread, args []Value) Value {
	t.Random = uint64(uint32(t.checkInt32(args, 0)))<<16 | 0x330E
	return t.Return()
}
