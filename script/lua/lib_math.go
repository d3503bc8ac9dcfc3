package lua

import "math"

// mathLibrary returns the table math, with Redis's random and randomseed.
func mathLibrary() *Table {
	return NewLibrary(
		Func("abs", mathAbs),
		Func("acos", unsigned(math.Acos)),
		Func("asin", unsigned(math.Asin)),
		Func("atan", unary(math.Atan)),
		Func("atan2", binary(math.Atan2)),
		Func("ceil", unary(math.Ceil)),
		Func("cos", unary(math.Cos)),
		Func("cosh", unary(math.Cosh)),
		Func("deg", unary(func(x float64) float64 { return x / degree })),
		Func("exp", charged(logarithmSteps, unary(exponential))),
		Func("floor", unary(math.Floor)),
		Func("fmod", mathFmod),
		Func("frexp", mathFrexp),
		Func("ldexp", mathLdexp),
		Func("log", charged(logarithmSteps, unary(logarithm))),
		Func("log10", charged(logarithmSteps, unsigned(logarithm10))),
		Func("max", mathMax),
		Func("min", mathMin),
		Func("mod", mathFmod),
		Func("modf", mathModf),
		Func("pow", mathPow),
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

// unary makes a function of a number. NaN stays unchanged, with its sign, and f is not
// called.
func unary(f func(x float64) float64) GoFunction {
	return func(t *Thread, args []Value) Value {
		x := t.CheckNumber(args, 0)
		if x != x {
			return Number(x)
		}
		t.Step(4)
		if x = f(x); x != x {
			x = invalid()
		}
		return Number(x)
	}
}

// charged is f where it takes so many steps more.
func charged(steps int, f GoFunction) GoFunction {
	return func(t *Thread, args []Value) Value {
		t.Step(steps)
		return f(t, args)
	}
}

// unsigned is unary for those functions of the C library whose invalid
// operations give a NaN without a sign.
func unsigned(f func(x float64) float64) GoFunction {
	g := unary(f)
	return func(t *Thread, args []Value) Value {
		v := g(t, args)
		if f := v.Number(); f != f {
			if x := t.CheckNumber(args, 0); x == x {
				return Number(math.Abs(f))
			}
		}
		return v
	}
}

// checkNumbers returns two numbers. It checks the second first, as C does.
func (t *Thread) checkNumbers(args []Value) (x, y float64) {
	y = t.CheckNumber(args, 1)
	return t.CheckNumber(args, 0), y
}

// binary makes a function of two numbers.
func binary(f func(x, y float64) float64) GoFunction {
	return func(t *Thread, args []Value) Value {
		x, y := t.checkNumbers(args)
		if x != x || y != y {
			return Number(x + y)
		}
		if x = f(x, y); x != x {
			x = invalid()
		}
		return Number(x)
	}
}

// mathFmod is math.fmod, which takes a step for each bit by which its numbers
// differ in size.
func mathFmod(t *Thread, args []Value) Value {
	x, y := t.checkNumbers(args)
	t.Step(2 * max(0, exponentOf(x)-exponentOf(y)))
	return modulo(t, args)
}

var modulo = binary(math.Mod)

// exponentOf returns the exponent of a float as its bits have it.
func exponentOf(f float64) int { return int(math.Float64bits(f) >> 52 & 0x7FF) }

func mathAbs(t *Thread, args []Value) Value { return Number(math.Abs(t.CheckNumber(args, 0))) }

func mathPow(t *Thread, args []Value) Value {
	t.Step(powerSteps)
	return Number(Power(t.checkNumbers(args)))
}

var zero float64

// invalid returns the NaN of an invalid operation, whose sign depends on the
// processor; scripts see it.
func invalid() float64 { return zero / zero }

func mathFrexp(t *Thread, args []Value) Value {
	fraction, exponent := math.Frexp(t.CheckNumber(args, 0))
	return t.Return(Number(fraction), Int(exponent))
}

func mathLdexp(t *Thread, args []Value) Value {
	exponent := t.checkInt32(args, 1)
	return Number(math.Ldexp(t.CheckNumber(args, 0), exponent))
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

// firstRandom is the state of a generator that nobody has seeded.
const firstRandom = 0x1234ABCD330E

// seeded has the state of the generator of a run that called randomseed.
var seeded = NewLocal()

// random returns a number in [0, 1) from Redis's generator for scripts, which has 48 bits
// (it is drand48). As in Redis, the sequence continues from script to script, so that
// scripts get different numbers. A seed applies only to its own run.
func (t *Thread) random() float64 {
	var state uint64
	if own, ok := (*t.Local(seeded)).(*uint64); ok {
		*own = nextRandom(*own)
		state = *own
	} else {
		for shared := &t.env.random; ; {
			old := shared.Load()
			state = nextRandom(old)
			if shared.CompareAndSwap(old, state) {
				break
			}
		}
	}
	return float64(state>>17%math.MaxInt32) / math.MaxInt32
}

func nextRandom(state uint64) uint64 { return (state*0x5DEECE66D + 0xB) & (1<<48 - 1) }

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
	state := uint64(uint32(t.checkInt32(args, 0)))<<16 | 0x330E
	*t.Local(seeded) = &state
	return t.Return()
}
