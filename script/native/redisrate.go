package native

import (
	"math/bits"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// redisRateScripts are the scripts of go-redis/redis_rate. They implement GCRA. The
// state is one number as text: the time, in seconds since 2017, at which the limit is
// full again.
//
// The Lua code computes with floats. Times since 2017 are now so large that floats have
// steps of 60 ns. At 10 calls per second, the Lua code therefore replies 8 left instead
// of 9. The Go code uses whole picoseconds, so it grants exactly what the arguments
// mean. It writes 12 decimals, which the Lua code can read. If the Lua code wrote the
// stored text, the Go code reads the text as it is.
//
// Increments are rounded down and the burst is rounded up, each by less than a
// picosecond. So no call is denied that should pass. At a million calls per second,
// fewer than one call in a million passes too early.
var redisRateScripts = []Script{
	{
		Library: "redis_rate allowN", Instead: redisRateInstead,
		SHAs:         []string{"f52a5b566060d79fd321d695df55bc918339c4aa"},
		Fingerprints: []string{"6bcea8dd8ac4ff636d7d45dd9f1d87c9"},
		run:          func(c *Call) bool { return c.allowN(gcra{}) },
	},
	{
		Library: "redis_rate v9.1.0 allowN", Instead: redisRateInstead,
		SHAs:         []string{"b51fcf1fec2622e401ecd1495ba719a525362891"},
		Fingerprints: []string{"bdbd92c57b9b08a741372f3ea135f87d"},
		run:          func(c *Call) bool { return c.allowN(gcra{stores: true}) },
	},
	{
		Library: "redis_rate v9.0 allowN", Instead: redisRateInstead,
		SHAs:         []string{"ed56c8a55853f0875fb1b3ec6a5f0d599ae50fb7"},
		Fingerprints: []string{"f6c5382220ca45467ebc7400c03b2990"},
		run:          func(c *Call) bool { return c.allowN(gcra{stores: true, rounds: true}) },
	},
	{
		Library: "redis_rate v8 gcra", Instead: redisRateInstead,
		SHAs:         []string{"c63c96596849c7e5dd745dda1f81821c2f36a85d"},
		Fingerprints: []string{"eeeb423136c2eae862ff11ae60932f71"},
		run:          func(c *Call) bool { return c.allowN(gcra{stores: true, rounds: true, limited: true}) },
	},
	{
		Library:      "redis_rate allowAtMost",
		SHAs:         []string{"054143318f521948424aa25df61d7f7ba835a9d7"},
		Fingerprints: []string{"07b6b0cb37f8ebd7654ec6f4dc6423cc"},
		run:          func(c *Call) bool { return c.allowAtMost(gcra{}) },
	},
	{
		Library:      "redis_rate v9.1.0 allowAtMost",
		SHAs:         []string{"a6aad3b47e739a75dad60abfc23778c5cf863397"},
		Fingerprints: []string{"5f85212e9c4a5af8a5784b09281e857a"},
		run:          func(c *Call) bool { return c.allowAtMost(gcra{stores: true}) },
	},
	{
		Library:      "redis_rate v9.0 allowAtMost",
		SHAs:         []string{"879df209aa81c6045299275bd92eddc98dc3ba7d"},
		Fingerprints: []string{"f941b1758e26833963a65977c70a69ac"},
		run:          func(c *Call) bool { return c.allowAtMost(gcra{stores: true, rounds: true}) },
	},
}

const redisRateInstead = "CL.THROTTLE key burst-1 rate period cost"

// gcra is what differs between versions of redis_rate.
type gcra struct {
	stores  bool // also if nothing is used
	rounds  bool // rounds what remains to the nearest whole
	limited bool // the reply begins with 1 for a refusal, not with the granted units
}

const (
	// picoMicro and picoSecond are a microsecond and a second, in ps.
	picoMicro  int64 = 1e6
	picoSecond int64 = 1e12
	// redisRateEpoch is 2017-01-01, in s.
	redisRateEpoch = 1483228800
	// maxPico bounds all spans to some 26 days, so that sums of a few fit in an int64.
	// The Lua handles longer ones.
	maxPico int64 = 1 << 61
)

// emission has the arguments of a call, in ps.
type emission struct {
	rate, period int64
	burst        int64 // the time of a whole burst
	cost         int64 // in units
}

// emission reads burst, rate, period and cost.
func (c *Call) emission() (e emission) {
	burst := c.whole(0)
	e.rate, e.cost = c.whole(1), c.whole(3)
	var ok bool
	e.period, ok = picoseconds(c.arg(2))
	c.expect(ok && burst >= 0 && e.rate > 0 && e.period > 0 && e.cost >= 0)
	if c.odd {
		return emission{}
	}
	e.burst, ok = muldiv(e.period, burst, e.rate, true)
	c.expect(ok)
	return e
}

// muldiv returns a*b/c, rounded down or up. ok is false above maxPico. No argument is
// negative, and c is positive.
func muldiv(a, b, c int64, up bool) (q int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 0, false
	}
	quotient, rest := bits.Div64(hi, lo, uint64(c))
	if up && rest > 0 {
		quotient++
	}
	return int64(quotient), quotient <= uint64(maxPico)
}

// picoseconds reads seconds with at most 12 decimals, up to maxPico.
func picoseconds(text []byte) (n int64, ok bool) {
	s, frac, ok := seconds(text)
	if !ok || s >= maxPico/picoSecond {
		return 0, false
	}
	return s*picoSecond + frac, true
}

// seconds reads a number of seconds with at most 12 decimals as seconds and
// picoseconds.
func seconds(text []byte) (s, frac int64, ok bool) {
	i := 0
	for ; i < len(text) && text[i] != '.'; i++ {
		d := int64(text[i]) - '0'
		if d < 0 || d > 9 || i == 12 {
			return 0, 0, false
		}
		s = s*10 + d
	}
	if i == 0 {
		return 0, 0, false
	}
	if i == len(text) {
		return s, 0, true
	}
	decimals := text[i+1:]
	if len(decimals) == 0 || len(decimals) > 12 {
		return 0, 0, false
	}
	for _, c := range decimals {
		d := int64(c) - '0'
		if d < 0 || d > 9 {
			return 0, 0, false
		}
		frac = frac*10 + d
	}
	for range 12 - len(decimals) {
		frac *= 10
	}
	return s, frac, true
}

// instant is a time since 2017.
type instant struct{ s, pico int64 }

// clock returns the time that the script computes from TIME: the call's time in µs.
func (c *Call) clock() instant {
	us := c.Now / 1000
	return instant{us/1e6 - redisRateEpoch, us % 1e6 * picoMicro}
}

// until returns the time from now to a stored instant, in ps. ok is false if the instant is
// too far away, or if the text is not an instant. If the instant has passed, it returns 0
// or, if past is set, a negative time.
func (now instant) until(v *engine.Value, past bool) (pico int64, ok bool) {
	if !v.Exists() {
		return 0, true
	}
	s, frac, ok := seconds(v.Bytes())
	switch {
	case !ok:
		return 0, false
	case s < now.s && !past:
		return 0, true
	case s < now.s-maxPico/picoSecond || s > now.s+maxPico/picoSecond:
		return 0, false
	}
	pico = (s-now.s)*picoSecond + frac - now.pico
	if pico < 0 && !past {
		pico = 0
	}
	return pico, pico <= maxPico
}

// keep stores the instant that is pico after now. The key expires in the second after
// that.
func (c *Call) keep(v *engine.Value, now instant, pico int64) bool {
	at := instant{now.s, now.pico + pico%picoSecond}
	at.s += pico/picoSecond + at.pico/picoSecond
	at.pico %= picoSecond
	text := c.text[:0]
	text = appendDigits(text, at.s, 1)
	text = append(text, '.')
	text = appendDigits(text, at.pico, 12)
	if err := v.Set(text); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(c.Now + (pico+picoSecond-1)/picoSecond*int64(time.Second))
	return true
}

// allowN grants all of the cost or nothing.
func (c *Call) allowN(style gcra) bool {
	e := c.emission()
	increment, ok := muldiv(e.period, e.cost, e.rate, false)
	c.expect(ok)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	now := c.clock()
	stored, ok := now.until(v, style.limited)
	if !ok {
		return false
	}
	busy := max(stored, 0)
	after := busy + increment
	left := e.burst - after
	remaining, ok := e.units(left, style.rounds)
	switch {
	case !ok:
		return false
	case remaining < 0:
		if style.limited {
			c.rated(1, 0, -left, stored)
		} else {
			c.rated(0, 0, -left, busy)
		}
		return true
	}
	if !c.keepUsed(v, now, after, style) {
		return false
	}
	granted := e.cost
	if style.limited {
		granted = 0
	}
	c.rated(granted, remaining, -1, after)
	return true
}

// keepUsed stores the instant if it is in the future. If it is not, keepUsed returns false
// for versions of the library that store it anyway, because their Lua code then raises an
// error.
func (c *Call) keepUsed(v *engine.Value, now instant, pico int64, style gcra) bool {
	if pico > 0 {
		return c.keep(v, now, pico)
	}
	return !style.stores
}

// allowAtMost grants what remains, at most the cost.
func (c *Call) allowAtMost(style gcra) bool {
	e := c.emission()
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	now := c.clock()
	busy, ok := now.until(v, false)
	if !ok {
		return false
	}
	left := e.burst - busy
	remaining, ok := e.units(left, style.rounds)
	if !ok || style.rounds && remaining < 0 {
		return false
	}
	if remaining < 1 {
		one, ok := muldiv(e.period, 1, e.rate, true)
		if !ok {
			return false
		}
		c.rated(0, 0, one-left, busy)
		return true
	}
	granted, increment := e.cost, int64(0)
	if remaining < e.cost {
		granted = remaining
		// The rest of the last unit is taken too.
		increment = left
		if style.rounds {
			increment, ok = muldiv(e.period, granted, e.rate, false)
		}
		remaining = 0
	} else {
		increment, ok = muldiv(e.period, granted, e.rate, false)
		remaining -= granted
	}
	if !ok || !c.keepUsed(v, now, busy+increment, style) {
		return false
	}
	c.rated(granted, remaining, -1, busy+increment)
	return true
}

// units returns how many units a time is worth. It is negative if any time is missing.
// Otherwise it is rounded down or, if nearest is set, to the nearest number.
func (e *emission) units(pico int64, nearest bool) (n int64, ok bool) {
	if nearest {
		// floor(x + 1/2), which is not negative from -1/2 on.
		half, _ := muldiv(e.period, 1, 2*e.rate, true)
		pico += half
	}
	if pico < 0 {
		return -1, true
	}
	return muldiv(pico, e.rate, e.period, false)
}

// rated writes the reply: two integers, and two times as texts in seconds. retry is -1 if
// nothing was refused.
func (c *Call) rated(first, remaining, retry, reset int64) {
	c.W.Array(4)
	c.W.Int(first)
	c.W.Int(remaining)
	if retry == -1 {
		c.W.BulkString("-1")
	} else {
		bulkSeconds(c.W, retry)
	}
	bulkSeconds(c.W, reset)
}

// bulkSeconds writes a time in ps as Lua's tostring writes it in seconds: with 14
// significant digits.
func bulkSeconds(w *resp.Writer, pico int64) {
	var room [32]byte
	text := room[:0]
	if pico < 100*picoSecond && (pico >= picoSecond/10_000 || pico == 0) {
		// No more than 14 digits: exact.
		text = appendDigits(text, pico/picoSecond, 1)
		if frac := pico % picoSecond; frac > 0 {
			text = appendDigits(append(text, '.'), frac, 12)
			for text[len(text)-1] == '0' {
				text = text[:len(text)-1]
			}
		}
	} else {
		text = lua.AppendNumber(text, float64(pico)/float64(picoSecond))
	}
	w.Bulk(text)
}

// appendDigits appends n, 0 or more, with at least digits digits.
func appendDigits(b []byte, n int64, digits int) []byte {
	var room [20]byte
	i := len(room)
	for n > 0 || digits > 0 {
		i--
		digits--
		room[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, room[i:]...)
}
