package engine

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

func parseNumber(t testing.TB, s string) Number {
	t.Helper()
	v, err := ParseFloat([]byte(s))
	require.NoError(t, err, s)
	return v
}

// incrArgs builds options from the words of a command, as a front does.
func incrArgs(t testing.TB, args string) *IncrOptions {
	t.Helper()
	o := &IncrOptions{By: Integer(1)}
	words := strings.Fields(args)
	number := func(s string) Number {
		if o.Float {
			return parseNumber(t, s)
		}
		n, ok := new(big.Int).SetString(s, 10)
		require.True(t, ok && n.IsInt64(), s)
		return Integer(n.Int64())
	}
	o.Float = strings.Contains(args, "BYFLOAT")
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "BYINT", "BYFLOAT":
			i++
			o.By = number(words[i])
		case "LBOUND":
			i++
			o.Lower, o.HasLower = number(words[i]), true
		case "UBOUND":
			i++
			o.Upper, o.HasUpper = number(words[i]), true
		case "SATURATE":
			o.Saturate = true
		default:
			t.Fatal(words[i])
		}
	}
	require.NoError(t, o.Validate())
	return o
}

// The answers of Redis 8.8.
func TestIncr(t *testing.T) {
	const maxInt, minInt = "9223372036854775807", "-9223372036854775808"
	for _, v := range []struct{ value, args, want, applied string }{
		{"0", "", "1", "1"},
		{"10", "", "11", "1"},
		{"100", "BYINT -10", "90", "-10"},
		{"95", "BYINT 0", "95", "0"},
		{"50", "BYINT 100 UBOUND 80 SATURATE", "80", "30"},
		{"10", "BYINT -100 LBOUND 0 SATURATE", "0", "-10"},
		{"5", "BYINT 1 LBOUND 0 UBOUND 10", "6", "1"},
		{"5", "BYINT 5 UBOUND 10", "10", "5"},
		{"10", "BYINT 10 UBOUND 15", "rejected", ""},
		{"10", "BYINT 1 UBOUND 10", "rejected", ""},
		{"10", "BYINT -1 LBOUND 10", "rejected", ""},
		{"10", "BYINT -1 LBOUND 9", "9", "-1"},
		{"10", "BYINT -10 LBOUND 5", "rejected", ""},
		{"0", "BYINT 5 LBOUND 10", "rejected", ""},
		{"10000", "BYINT -500 UBOUND 200", "rejected", ""},
		{"50", "BYINT 5 UBOUND 30", "rejected", ""},
		{"50", "BYINT 5 UBOUND 30 SATURATE", "30", "-20"},
		{"-50", "BYINT -5 LBOUND -30 SATURATE", "-30", "20"},
		{"50", "BYINT -25 UBOUND 30", "25", "-25"},
		{"9223372036854775800", "BYINT 9223372036854775800", "rejected", ""},
		{"9223372036854775800", "BYINT 9223372036854775800 SATURATE", maxInt, "7"},
		{"-9223372036854775800", "BYINT -9223372036854775800 SATURATE", minInt, "-8"},
		{"-9223372036854775800", "BYINT -9223372036854775800 LBOUND " + minInt + " SATURATE", minInt, "-8"},
		{"9223372036854775800", "BYINT 1 SATURATE UBOUND " + minInt, ErrIncrOverflow.Error(), ""},
		{maxInt, "BYINT -5 UBOUND " + minInt + " SATURATE", ErrIncrOverflow.Error(), ""},
		{minInt, "BYINT 0 LBOUND 0 SATURATE", ErrIncrOverflow.Error(), ""},
		{minInt, "BYINT -1 SATURATE", minInt, "0"},
		{minInt, "BYINT " + maxInt, "-1", maxInt},
		{"1.5", "BYINT 1", ErrNotInteger.Error(), ""},

		{"1.5", "BYFLOAT 0.25", "1.75", "0.25"},
		{"1.75", "BYFLOAT 1", "2.75", "1"},
		{"1.75", "BYFLOAT 0.25", "2", "0.25"},
		{"0.1", "BYFLOAT 0.2", "0.3", "0.2"},
		{"100.1", "BYFLOAT 0.2", "100.3", "0.2"},
		{"10", "BYFLOAT 100 UBOUND 42.5 SATURATE", "42.5", "32.5"},
		{"0", "BYFLOAT -100 LBOUND -5.5 SATURATE", "-5.5", "-5.5"},
		{"0", "BYFLOAT -0.5 UBOUND -1.5", "rejected", ""},
		{"50.5", "BYFLOAT 5.5 UBOUND 30", "rejected", ""},
		{"50.5", "BYFLOAT 5.5 UBOUND 30 SATURATE", "30", "-20.5"},
		{"5", "BYFLOAT 5.0 UBOUND 10.0", "10", "5"},
		{"10", "BYFLOAT 1.0 UBOUND inf", "11", "1"},
		{"10", "BYFLOAT 1.0 LBOUND -inf", "11", "1"},
		{"10", "BYFLOAT 1.0 LBOUND inf UBOUND inf", "rejected", ""},
		{"10", "BYFLOAT 1.0 LBOUND inf UBOUND inf SATURATE", ErrIncrInfinity.Error(), ""},
		{"10", "BYFLOAT 1.0 LBOUND -inf UBOUND -inf SATURATE", ErrIncrInfinity.Error(), ""},
		{"1.1e4932", "BYFLOAT 1.1e4932", "rejected", ""},
		{"1.1e4932", "BYFLOAT 1.1e4932 UBOUND inf SATURATE", ErrIncrInfinity.Error(), ""},
		{"-1.1e4932", "BYFLOAT 1.1e4932 LBOUND 1.1e4932 SATURATE", ErrIncrInfinity.Error(), ""},
		{"inf", "BYFLOAT 1", ErrInfinite.Error(), ""},
		{"inf", "BYFLOAT -1 UBOUND 5 SATURATE", ErrInfinite.Error(), ""},
		{"-inf", "BYFLOAT 0 LBOUND -100", ErrInfinite.Error(), ""},
		{"inf", "BYINT 1", ErrNotInteger.Error(), ""},
		// 64 bits of precision: a double would lose the 1.
		{"9007199254740992", "BYFLOAT 1", "9007199254740993", "1"},
		{"3", "BYFLOAT 1e-18", "3", "0"},
	} {
		value := parseNumber(t, v.value).written()
		got, applied, write, err := value.incr(incrArgs(t, v.args))
		name := v.value + " " + v.args
		switch {
		case err != nil:
			require.Equal(t, v.want, err.Error(), name)
		case !write:
			require.Equal(t, v.want, "rejected", name)
			require.Equal(t, value, got, name)
			require.Equal(t, Number{}, applied, name)
		default:
			require.Equal(t, v.want, got.String(), name)
			require.Equal(t, v.applied, applied.String(), name)
			_, whole := got.Int64()
			require.Equal(t, !strings.Contains(v.want, "."), whole, name)
		}
	}
}

func TestIncrOptions(t *testing.T) {
	for _, v := range []struct {
		o    IncrOptions
		want error
	}{
		{IncrOptions{By: Integer(1)}, nil},
		{IncrOptions{Float: true, By: parseNumber(t, "-inf")}, ErrInfiniteIncrement},
		{IncrOptions{Lower: Integer(10), HasLower: true, Upper: Integer(5), HasUpper: true}, ErrBounds},
		{IncrOptions{Float: true, Lower: parseNumber(t, "10.5"), HasLower: true, Upper: parseNumber(t, "1.5"), HasUpper: true}, ErrBounds},
		{IncrOptions{OnlyNew: true}, ErrOnlyNew},
		{IncrOptions{OnlyNew: true, TTL: second}, nil},
		{IncrOptions{OnlyNew: true, Deadline: start}, nil},
	} {
		require.ErrorIs(t, v.o.Validate(), v.want)
	}
}

func TestParseFloat(t *testing.T) {
	for s, want := range map[string]string{
		"0": "0", "-0": "0", "+1": "1", "1.50": "1.5", ".5": "0.5", "5.": "5", "-1e3": "-1000", "1E-3": "0.001",
		"inf": "inf", "+Infinity": "inf", "-INF": "-inf", "0.1": "0.1", "1e-20": "0",
		"123456789012345678901234567890": "123456789012345678899921813504", // 64 bits of it
	} {
		require.Equal(t, want, parseNumber(t, s).String(), s)
	}
	for _, s := range []string{
		"", "-", "abc", " 1", "1 ", "1_000", "0x10", "1p3", "1e", "e5", "nan", "--1", "+-inf", "1.2.3", "1e5000", "-1e99999999999", strings.Repeat("1", maxNumberLen),
	} {
		_, err := ParseFloat([]byte(s))
		require.ErrorIs(t, err, ErrNotFloat, s)
	}
}

// The exponents that Redis 7.0.15 accepts and refuses (long doubles of x86-64). Each
// takes no time: computing 1e-300000 took seconds, 1e-600000000 did not end.
func TestParseFloatLooksAtTheExponentFirst(t *testing.T) {
	for s, want := range map[string]bool{
		"1e-300000": false, "1e-600000000": false, "1e600000000": false, "1e99999999999": false, "-1e-99999999999": false,
		"1e-4950": true, "1e-4951": false, "1.8e-4951": false, "1.9e-4951": true, "1.82259976594123730126e-4951": false,
		"1.83e-4951": true, "2e-4951": true, "9e-4952": false, "100e-4953": false, "1e-04940": true,
		"1e4932": true, "1.1e4932": true, "1.2e4932": false, "1e4933": false, "0.0000000001e4940": true,
		"0e99999999999": true, "0.0e-99999999999": true, "-0e5": true, "00001e-3": true, "1e+5": true, "1e0005": true, "0000e1": true,
		"1e-+5": false, "1e": false, "1e5.": false, ".e5": false, "0e": false, "0e+": false, "0ee1": false, ".": false,
		strings.Repeat("9", 4900) + "e-9000": true, "0." + strings.Repeat("0", 5000) + "1e9000": true,
	} {
		begin := time.Now()
		v, err := ParseFloat([]byte(s))
		if err == nil {
			_, _, _, err = v.incr(&IncrOptions{Float: true, By: v})
		}
		require.Less(t, time.Since(begin), 100*time.Millisecond, s)
		require.Equal(t, want, err == nil, s)
	}
}

func TestNumberRoundTrip(t *testing.T) {
	for _, s := range []string{"0", "-7", "9223372036854775807", "-9223372036854775808", "0.5", "-3.25", "0.1", "92233720368547758080", "1e4000"} {
		v := parseNumber(t, s).written()
		buf := make([]byte, 8*v.words())
		for i := range buf {
			buf[i] = 0xff
		}
		v.store(buf)
		read, ok := loadNumber(buf)
		require.True(t, ok)
		require.Equal(t, v.String(), read.String())
	}
}

// Integer increments are those of big integers, clamped or refused.
func TestIncrAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := func(name string) int64 { return algotest.Wide(t, name, math.MinInt64, math.MaxInt64) }
		cur, by, lower, upper := any("value"), any("by"), any("lower"), any("upper")
		o := &IncrOptions{By: Integer(by), Saturate: rapid.Bool().Draw(t, "saturate")}
		low, high := algotest.Int(math.MinInt64), algotest.Int(math.MaxInt64)
		if o.HasLower = rapid.Bool().Draw(t, "has lower"); o.HasLower {
			o.Lower, low = Integer(lower), algotest.Int(lower)
		}
		if o.HasUpper = rapid.Bool().Draw(t, "has upper"); o.HasUpper {
			o.Upper, high = Integer(upper), algotest.Int(upper)
		}
		if o.Validate() != nil {
			require.Positive(t, low.Cmp(high))
			return
		}
		sum := algotest.Add(algotest.Int(cur), algotest.Int(by))
		inside := sum.Cmp(low) >= 0 && sum.Cmp(high) <= 0
		value, applied, write, err := Integer(cur).incr(o)
		if sum.Cmp(high) > 0 {
			sum = high
		} else if sum.Cmp(low) < 0 {
			sum = low
		}
		grown := algotest.Sub(sum, algotest.Int(cur))
		switch {
		case !inside && !o.Saturate:
			require.NoError(t, err)
			require.False(t, write)
			require.Equal(t, Integer(cur), value)
			require.Equal(t, Integer(0), applied)
		case !grown.IsInt64():
			require.ErrorIs(t, err, ErrIncrOverflow)
		default:
			require.NoError(t, err)
			require.True(t, write)
			require.Equal(t, Integer(sum.Int64()), value)
			require.Equal(t, Integer(grown.Int64()), applied)
		}
	})
}

func FuzzParseFloat(f *testing.F) {
	for _, s := range []string{"1.5", "-inf", "1e400", "0x1p-2", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseFloat([]byte(s))
		if err != nil {
			require.ErrorIs(t, err, ErrNotFloat)
			return
		}
		require.Less(t, len(v.String()), maxNumberLen)
		if !v.infinite() {
			w := v.written()
			require.Equal(t, w.String(), w.written().String(), "what is stored stays the same")
		}
	})
}

// Count is Incr, and a deadline for a count that begins.
func TestCount(t *testing.T) {
	const most = 1000
	rnd := rand.New(rand.NewPCG(5, 6))
	s, model := newTestSession(t, Config{Shards: 1}), newTestSession(t, Config{Shards: 1})
	same := func(now int64, key []byte) {
		t.Helper()
		want, there, err := model.Get(now, key, nil)
		require.NoError(t, err)
		got, ok, err := s.Get(now, key, nil)
		require.NoError(t, err)
		require.Equal(t, there, ok)
		require.Equal(t, want, got)
		wantAt, wantNever, _, _ := model.Deadline(now, key)
		at, never, _, _ := s.Deadline(now, key)
		require.Equal(t, wantAt, at)
		require.Equal(t, wantNever, never)
	}
	now := start
	for range 20_000 {
		now += rnd.Int64N(20)
		key := []byte{'k', byte('0' + rnd.IntN(4))}
		if rnd.IntN(20) == 0 {
			value := []byte([]string{"0", "-3", "1000", "-1000", "999", "text"}[rnd.IntN(6)])
			for _, s := range []*Session{s, model} {
				_, err := s.Set(now, key, value, &SetOptions{Deadline: now + 200})
				require.NoError(t, err)
			}
		}
		by, until := rnd.Int64N(5)-2, now+rnd.Int64N(60)-5
		have, there, err := model.Get(now, key, nil)
		require.NoError(t, err)
		n, integer := parseInteger(have)
		got, gotErr := s.Count(now, key, by, most, until)
		switch {
		case there && !integer:
			require.ErrorIs(t, gotErr, ErrNotInteger)
		case n >= most || n <= -most:
			require.ErrorIs(t, gotErr, ErrIncrDecrOverflow)
		default:
			require.NoError(t, gotErr)
			sum, err := model.Incr(now, key, by)
			require.NoError(t, err)
			require.Equal(t, sum, got)
			if n == 0 {
				v, err := model.Open(now, key, algo.Counter)
				require.NoError(t, err)
				v.SetDeadline(until)
				v.Close()
			}
		}
		same(now, key)
	}
	v, err := s.Open(start, []byte("hash"), algo.Hash)
	require.NoError(t, err)
	require.NoError(t, v.Set([]byte("value")))
	v.Close()
	_, err = s.Count(now, []byte("hash"), 1, most, now+1)
	require.ErrorIs(t, err, ErrWrongType)
	_, err = s.Count(now, make([]byte, 65<<10), 1, most, now+1)
	require.ErrorIs(t, err, ErrKeyTooLong)
}
